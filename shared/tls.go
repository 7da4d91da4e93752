package shared

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// tlsConfig is the plugin's side of the mutual TLS between host and plugin.
// The key pair is made by the host for this one instance; since the host keeps
// its own, a restarted host can connect to a plugin that outlived it, which
// go-plugin's AutoMTLS cannot.
func tlsConfig(env environment) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(env.file(CertFile), env.file(KeyFile))
	if err != nil {
		return nil, fmt.Errorf("cannot load the plugin's certificate: %w", err)
	}
	ca, err := os.ReadFile(env.file(CAFile))
	if err != nil {
		return nil, fmt.Errorf("cannot load the installation's certificate authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("cannot load the installation's certificate authority: %s holds no certificate", env.file(CAFile))
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{cert},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    pool,
	}, nil
}
