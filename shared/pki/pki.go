// Package pki is the certificates by which a host and its plugins know each
// other: an authority of the host's own, a key pair for the host, and one for
// each instance.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"github.com/plughost/plughost/shared"
)

// Authority is a certificate authority, with a key pair for the host.
type Authority struct {
	ca     *x509.Certificate
	caPEM  []byte
	caKey  *ecdsa.PrivateKey
	client tls.Certificate
}

// The certificates never expire by the clock, which at boot may be anything:
// they are believed for being the installation's own. The end is what RFC 5280
// gives for no well-defined end.
var (
	notBefore = time.Unix(0, 0).UTC()
	notAfter  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

// Make makes an authority's key pair, as PEM.
func Make(name string) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             notBefore,
		NotAfter:              notAfter,
		KeyUsage:              x509.KeyUsageCertSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
	}
	return sign(template, template, key, key)
}

// New returns the authority whose key pair this is, with a new one for the host.
func New(pair tls.Certificate) (*Authority, error) {
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the authority has a %T, not an ECDSA key", pair.PrivateKey)
	}
	a := &Authority{
		ca:    pair.Leaf,
		caKey: key,
		caPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Leaf.Raw}),
	}
	certPEM, keyPEM, err := a.issue("plughost host", x509.ExtKeyUsageClientAuth)
	if err != nil {
		return nil, fmt.Errorf("cannot make the host's certificate: %w", err)
	}
	if a.client, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		return nil, fmt.Errorf("cannot make the host's certificate: %w", err)
	}
	return a, nil
}

// WriteInstanceFiles makes a key pair for an instance and writes what the
// plugin needs of TLS into its directory, each file of mode 0600.
func (a *Authority) WriteInstanceFiles(dir, instance string) error {
	certPEM, keyPEM, err := a.issue(instance, x509.ExtKeyUsageServerAuth)
	if err != nil {
		return fmt.Errorf("cannot make the instance's certificate: %w", err)
	}
	for name, content := range map[string][]byte{
		shared.CAFile:   a.caPEM,
		shared.CertFile: certPEM,
		shared.KeyFile:  keyPEM,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return fmt.Errorf("cannot write the instance's certificate: %w", err)
		}
	}
	return nil
}

// ClientTLS is the host's side of the connection to an instance: it speaks
// only to the very instance that it expects.
func (a *Authority) ClientTLS(instance string) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.ca)
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{a.client},
		RootCAs:      pool,
		ServerName:   instance,
		// It never leaves the machine, so nothing that is recorded of it could be
		// broken later; the hybrid key exchange would double its cost.
		CurvePreferences: []tls.CurveID{tls.X25519},
	}
}

// issue makes a P-256 key pair and a certificate for it, good for the one
// usage: a plugin's certificate does not make it a host to other plugins.
func (a *Authority) issue(name string, usage x509.ExtKeyUsage) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		DNSNames:    []string{name},
		NotBefore:   notBefore,
		NotAfter:    notAfter,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}
	if usage == x509.ExtKeyUsageClientAuth {
		template.DNSNames = nil
	}
	return sign(template, a.ca, key, a.caKey)
}

func sign(template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) (certPEM, keyPEM []byte, err error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), nil
}
