package installation

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"github.com/plughost/plughost/shared"
)

const (
	caCertFile = "ca.pem"
	caKeyFile  = "ca.key"
)

// Keys is the certificate authority of one installation. With it the host
// proves itself to its plugins and they to it. It is kept in the state
// directory, so that a host that was restarted can still speak to them.
type Keys struct {
	id     string
	ca     *x509.Certificate
	caPEM  []byte
	caKey  *ecdsa.PrivateKey
	client tls.Certificate
}

// The certificates never expire by the clock, which at boot may be anything:
// they are believed for being the installation's own. The end is what RFC 5280
// gives for no well-defined end.
var (
	notBefore = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	notAfter  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

// Keys reads the installation's keys, or makes them.
func (i *Installation) Keys() (*Keys, error) {
	certPath, keyPath := filepath.Join(i.Dir, caCertFile), filepath.Join(i.Dir, caKeyFile)
	pair, err := tls.LoadX509KeyPair(certPath, keyPath)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeCA(i.ID, certPath, keyPath); err != nil {
			return nil, fmt.Errorf("cannot make the installation's keys: %w", err)
		}
		pair, err = tls.LoadX509KeyPair(certPath, keyPath)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the installation's keys: %w: remove %s and %s to have new ones made", err, certPath, keyPath)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("cannot read the installation's keys: %s holds a %T, not an ECDSA key", keyPath, pair.PrivateKey)
	}
	k := &Keys{
		id:    i.ID,
		ca:    pair.Leaf,
		caKey: key,
		caPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Leaf.Raw}),
	}
	certPEM, keyPEM, err := k.issue("plughost host", x509.ExtKeyUsageClientAuth)
	if err != nil {
		return nil, fmt.Errorf("cannot make the host's certificate: %w", err)
	}
	if k.client, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		return nil, fmt.Errorf("cannot make the host's certificate: %w", err)
	}
	return k, nil
}

// WriteInstanceFiles makes a key pair for an instance and writes what the
// plugin needs of TLS into its directory, each file of mode 0600.
func (k *Keys) WriteInstanceFiles(dir, instance string) error {
	certPEM, keyPEM, err := k.issue(instance, x509.ExtKeyUsageServerAuth)
	if err != nil {
		return fmt.Errorf("cannot make the instance's certificate: %w", err)
	}
	for name, content := range map[string][]byte{
		shared.CAFile:   k.caPEM,
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
func (k *Keys) ClientTLS(instance string) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(k.ca)
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{k.client},
		RootCAs:      pool,
		ServerName:   instance,
	}
}

// issue makes a P-256 key pair and a certificate for it, good for the one
// usage: a plugin's certificate does not make it a host to other plugins.
func (k *Keys) issue(name string, usage x509.ExtKeyUsage) (certPEM, keyPEM []byte, err error) {
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
	return sign(template, k.ca, key, k.caKey)
}

func makeCA(id, certPath, keyPath string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "plughost installation " + id},
		NotBefore:             notBefore,
		NotAfter:              notAfter,
		KeyUsage:              x509.KeyUsageCertSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
	}
	certPEM, keyPEM, err := sign(template, template, key, key)
	if err != nil {
		return err
	}
	// The certificate last, and none before it: both are made anew when either
	// is missing, so that it does not matter where this is interrupted.
	if err := os.Remove(certPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeFile(keyPath, keyPEM); err != nil {
		return err
	}
	return writeFile(certPath, certPEM)
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
