package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"
)

func TestTokenOfAFile(t *testing.T) {
	t.Chdir(t.TempDir())
	const secret = "0123456789abcdef0123456789abcdef"
	write(t, "services.hcl", "host {\n gateway {\n  token \"a\" {\n   file=\"token\"\n  }\n }\n}\n")
	write(t, "token", secret+"\n")
	if err := os.Chmod("token", 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, diags := Load("services.hcl")
	good(t, cfg, diags)
	if got := cfg.Host.Gateway.Tokens[0].Digest; got != sha256.Sum256([]byte(secret)) {
		t.Errorf("the digest is %x", got)
	}
	if len(diags.All()) > 0 {
		t.Errorf("findings: %v", diags.All())
	}

	for _, text := range []string{"", "brief\n", secret + "\n" + secret + "\n", "two words and more of them"} {
		write(t, "token", text)
		_, diags := Load("services.hcl")
		if !diags.HasErrors() || text != "" && strings.Contains(diags.Err().Error(), strings.TrimSpace(text)) {
			t.Errorf("of the file %q is said: %v", text, diags.Err())
		}
	}
	if err := os.Remove("token"); err != nil {
		t.Fatal(err)
	}
	_, diags = Load("services.hcl")
	wantFindings(t, diags, at("4,9-16", "cannot be read", "token"))
	if err := os.Mkdir("token", 0o700); err != nil {
		t.Fatal(err)
	}
	_, diags = Load("services.hcl")
	wantFindings(t, diags, at("4,9-16", "not a regular file"))
}

func TestGuardedGatewayMayListenEverywhere(t *testing.T) {
	t.Chdir(t.TempDir())
	selfSigned(t, time.Now().Add(time.Hour))
	const token = ` token "a" {|   value="0123456789abcdef"|  }|`
	const certified = ` tls {|   certificate="cert.pem"|   key="key.pem"|  }|`
	for _, listen := range []string{"0.0.0.0:7433", "[::]:7433", "192.168.1.2:0"} {
		for _, guard := range []string{token + certified, token + "plain_http=true|"} {
			write(t, "services.hcl", written(`host {| listen="`+listen+`"| gateway {| `+guard+` }|}`))
			cfg, diags := Load("services.hcl")
			good(t, cfg, diags)
			if len(diags.All()) > 0 {
				t.Errorf("findings: %v", diags.All())
			}
		}
	}

	selfSigned(t, time.Now().Add(-time.Hour))
	write(t, "services.hcl", written(`host {| gateway {| `+certified+` }|}`))
	_, diags := Load("services.hcl")
	wantFindings(t, diags, warns("4,16-26", "expired"))
}

// selfSigned writes cert.pem and key.pem.
func selfSigned(t *testing.T, until time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: until.Add(-2 * time.Hour), NotAfter: until}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: certificate},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
