//go:build unix

package test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// bearer sends a token with each request, over TLS.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// A gateway that others than this machine reach, as they do it: with TLS and
// tokens, which are rotated while it runs, and shown nowhere.
func TestGatewayForOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	roots := selfSigned(t, dir)
	aliceFile := filepath.Join(dir, "alice")
	const alice, aliceNew, bob = "canary-alice-0123456789", "canary-alice-abcdefghij", "canary-bob-0123456789"
	writeSecret(t, aliceFile, alice)
	opts := faultConfig(t, hostOptions{env: []string{"BOB_TOKEN=" + bob}, hostBlock: fmt.Sprintf(`  log_level = "debug"
  gateway {
    tls {
      certificate = %q
      key         = %q
    }
    token "alice" {
      file = %q
    }
    token "bob" {
      value  = env("BOB_TOKEN")
      agents = []
      tools {
        allow = ["f/pid"]
      }
    }
  }
`, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), aliceFile)}, fault("f", ""), fault("g", ""))
	text, err := os.ReadFile(opts.config)
	if err != nil {
		t.Fatal(err)
	}
	port := opts.gateway[strings.LastIndex(opts.gateway, ":"):]
	exposed := strings.Replace(string(text), opts.gateway, "0.0.0.0"+port, 1)
	if err := os.WriteFile(opts.config, []byte(exposed), 0o600); err != nil {
		t.Fatal(err)
	}
	h := startHost(t, opts)
	h.waitReady()
	base := "https://localhost" + port
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	status := func(token string) int {
		t.Helper()
		response, err := bearer{token, transport}.RoundTrip(newRequest(t, base+"/mcp"))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		return response.StatusCode
	}
	connect := func(token, path string) *mcp.ClientSession {
		t.Helper()
		session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{
			Endpoint: base + path, HTTPClient: &http.Client{Transport: bearer{token, transport}},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = session.Close() })
		return session
	}

	pid := float64(h.status()["f"].PID)
	if got := pidOf(t, connect(alice, "/mcp/f"), "pid"); got != pid {
		t.Errorf("alice calls the plugin %v, want %v", got, pid)
	}
	if got := pidOf(t, connect(bob, "/mcp"), "f__pid"); got != pid {
		t.Errorf("bob calls the plugin %v, want %v", got, pid)
	}
	if _, err := connect(bob, "/mcp").CallTool(t.Context(), callParams("f__exit")); err == nil {
		t.Error("bob may call what the token does not allow")
	}
	for token, want := range map[string]int{alice: 200, bob: 200, aliceNew: 401, "": 401} {
		if got := status(token); got != want {
			t.Errorf("with the token %q the answer is %d, want %d", token, got, want)
		}
	}

	writeSecret(t, aliceFile, aliceNew)
	stdout, stderr, code := plughost(t, "reload", "--state-dir", h.stateDir, "--json")
	if code == 0 && !strings.Contains(stdout, "gateway.token.alice") {
		t.Errorf("the reload says %s %s", stdout, stderr)
	}
	for token, want := range map[string]int{alice: 401, aliceNew: 200, bob: 200} {
		if got := status(token); got != want {
			t.Errorf("after a reload, with the token %q the answer is %d, want %d", token, got, want)
		}
	}

	if stdout, stderr, code := plughost(t, "call", "--state-dir", h.stateDir, "f", "pid"); code != 0 {
		t.Errorf("who runs the host calls in vain: %q %q", stdout, stderr)
	}
	plan, _, _ := plughost(t, "plan", "--state-dir", h.stateDir)
	logs, _, _ := plughost(t, "logs", "--state-dir", h.stateDir)
	for what, text := range map[string]string{"the host's log": h.output.String(), "reload": stdout + stderr, "plan": plan, "logs": logs} {
		if strings.Contains(text, "canary") {
			t.Errorf("%s shows a token: %s", what, text)
		}
	}
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", h.status()["f"].PID))
	if err == nil && strings.Contains(string(environ), "canary") {
		t.Error("a plugin has a token in its environment")
	}
}

func newRequest(t *testing.T, url string) *http.Request {
	t.Helper()
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(initialize))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	return request
}

func writeSecret(t *testing.T, path, secret string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// selfSigned writes cert.pem and key.pem for localhost.
func selfSigned(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: certificate},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: secret},
	} {
		encoded := pem.EncodeToMemory(block)
		if name == "cert.pem" {
			roots.AppendCertsFromPEM(encoded)
		}
		if err := os.WriteFile(filepath.Join(dir, name), encoded, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return roots
}
