package guard

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/plughost/plughost/host/internal/config"
)

// keyPair is a certificate with its key, read again when their files change. It
// looks at them at each handshake, so nothing needs to be told of a renewal.
type keyPair struct {
	log hclog.Logger

	mu       sync.Mutex
	files    config.TLS
	versions [2]version // of the files, as they were last read
	unusable [2]version // of the files, as they were last said to be
	pair     *tls.Certificate
}

// version tells whether a file is the same as before.
type version struct {
	modified time.Time
	size     int64
}

func newKeyPair(files config.TLS, log hclog.Logger) (*keyPair, error) {
	k := &keyPair{files: files, log: log}
	if err := k.read(); err != nil {
		return nil, err
	}
	return k, nil
}

// use has other files be read from now on.
func (k *keyPair) use(files config.TLS) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.files != files {
		k.files, k.versions = files, [2]version{}
	}
}

// get is for tls.Config.GetCertificate. While the files cannot be used, as
// between the writing of the one and of the other, what was read before holds,
// and they are tried again each time: that they may be read now shows in no
// time of theirs.
func (k *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	found := k.look()
	if found == k.versions {
		return k.pair, nil
	}
	if err := k.read(); err != nil {
		if found != k.unusable {
			k.unusable = found
			k.log.Warn("the gateway goes on with the certificate that it has", "reason", err)
		}
		return k.pair, nil
	}
	k.log.Info("the gateway has a new certificate", "good_until", k.pair.Leaf.NotAfter)
	return k.pair, nil
}

// read reads the files, and takes what is in them if it is whole. The lock is
// held, or nobody else knows k yet.
func (k *keyPair) read() error {
	versions := k.look() // before it: what changes meanwhile is read next time
	pair, err := tls.LoadX509KeyPair(k.files.Certificate, k.files.Key)
	if err != nil {
		return fmt.Errorf("cannot use the certificate %s with the key %s: %w", k.files.Certificate, k.files.Key, err)
	}
	k.pair, k.versions = &pair, versions
	return nil
}

func (k *keyPair) look() (versions [2]version) {
	for i, path := range []string{k.files.Certificate, k.files.Key} {
		if info, err := os.Stat(path); err == nil {
			versions[i] = version{info.ModTime(), info.Size()}
		}
	}
	return versions
}
