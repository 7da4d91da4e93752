package installation

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/plughost/plughost/shared/pki"
)

const (
	caCertFile = "ca.pem"
	caKeyFile  = "ca.key"
)

// Keys is the certificate authority of one installation. With it the host
// proves itself to its plugins and they to it. It is kept in the state
// directory, so that a host that was restarted can still speak to them.
type Keys struct{ *pki.Authority }

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
	authority, err := pki.New(pair)
	if err != nil {
		return nil, fmt.Errorf("cannot use the installation's keys, %s: %w", keyPath, err)
	}
	return &Keys{authority}, nil
}

func makeCA(id, certPath, keyPath string) error {
	certPEM, keyPEM, err := pki.Make("plughost installation " + id)
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
