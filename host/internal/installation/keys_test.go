//go:build unix

package installation

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/plughost/plughost/shared"
)

func mustKeys(t *testing.T, inst *Installation) *Keys {
	t.Helper()
	keys, err := inst.Keys()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// instanceFiles are those of a new instance.
func instanceFiles(t *testing.T, keys *Keys, instance string) string {
	t.Helper()
	dir := t.TempDir()
	if err := keys.WriteInstanceFiles(dir, instance); err != nil {
		t.Fatal(err)
	}
	return dir
}

// authority is the certificate of the keys' authority.
func authority(t *testing.T, keys *Keys) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(instanceFiles(t, keys, "instance"), shared.CAFile))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func load(t *testing.T, dir string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, shared.CertFile), filepath.Join(dir, shared.KeyFile))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(dir, shared.CAFile))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		t.Fatal("there is no certificate authority")
	}
	return cert, pool
}

// serve is a plugin with the files in dir, that echoes; package shared makes
// its TLS of them in the same way.
func serve(t *testing.T, dir string) (socket string) {
	t.Helper()
	cert, pool := load(t, dir)
	socket = filepath.Join(shortDir(t), "s")
	l, err := tls.Listen("unix", socket, &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{cert},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    pool,
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.CopyN(conn, conn, 5)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return socket
}

// speak connects, and hears back what it said.
func speak(socket string, conf *tls.Config) error {
	raw, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	defer raw.Close()
	conn := tls.Client(raw, conf)
	_, _ = conn.Write([]byte("hello")) // what fails here fails below too
	_, err = io.ReadFull(conn, make([]byte, 5))
	return err
}

func TestHostAndPluginKnowEachOther(t *testing.T) {
	dir := t.TempDir()
	inst := mustOpen(t, dir)
	keys := mustKeys(t, inst)
	one, two := newInstance(t), newInstance(t)
	filesOne, filesTwo := instanceFiles(t, keys, one), instanceFiles(t, keys, two)
	socket := serve(t, filesOne)
	stranger := mustKeys(t, mustOpen(t, t.TempDir()))

	if err := speak(socket, keys.ClientTLS(one)); err != nil {
		t.Errorf("the host to its plugin: %v", err)
	}
	t.Run("after a restart of the host", func(t *testing.T) {
		if err := inst.Close(); err != nil {
			t.Fatal(err)
		}
		if err := speak(socket, mustKeys(t, mustOpen(t, dir)).ClientTLS(one)); err != nil {
			t.Error(err)
		}
	})
	t.Run("the host expects another instance", func(t *testing.T) {
		wantError(t, speak(socket, keys.ClientTLS(two)), "certificate is valid for "+one)
	})
	t.Run("the host of another installation", func(t *testing.T) {
		wantError(t, speak(socket, stranger.ClientTLS(one)), "unknown authority")
		// Even if it does not care whom it speaks to, the plugin does.
		conf := stranger.ClientTLS(one)
		conf.InsecureSkipVerify = true
		wantError(t, speak(socket, conf), "tls: ")
	})
	t.Run("another plugin as client", func(t *testing.T) {
		cert, pool := load(t, filesTwo)
		wantError(t, speak(socket, &tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, RootCAs: pool, ServerName: one,
		}), "tls: ")
	})
	t.Run("a client without a certificate", func(t *testing.T) {
		_, pool := load(t, filesTwo)
		wantError(t, speak(socket, &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, ServerName: one}), "certificate required")
	})
	t.Run("a plugin that poses as the host's other plugin", func(t *testing.T) {
		wantError(t, speak(serve(t, filesTwo), keys.ClientTLS(one)), "certificate is valid for "+two)
	})
	t.Run("an older TLS", func(t *testing.T) {
		conf := keys.ClientTLS(one)
		conf.MinVersion, conf.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
		wantError(t, speak(socket, conf), "protocol version")
	})
}

// A machine without a clock of its own begins in 1970 with each boot.
func TestKeysHoldWhateverTheClockSays(t *testing.T) {
	keys, instance := mustKeys(t, mustOpen(t, t.TempDir())), newInstance(t)
	socket := serve(t, instanceFiles(t, keys, instance))
	for _, now := range []time.Time{time.Unix(0, 0), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)} {
		conf := keys.ClientTLS(instance)
		conf.Time = func() time.Time { return now }
		if err := speak(socket, conf); err != nil {
			t.Errorf("at %v: %v", now.UTC(), err)
		}
	}
}

func TestKeyFilesAreForTheirOwnerAlone(t *testing.T) {
	inst := mustOpen(t, t.TempDir())
	dir := instanceFiles(t, mustKeys(t, inst), newInstance(t))
	for _, path := range []string{
		filepath.Join(inst.Dir, caKeyFile), filepath.Join(inst.Dir, caCertFile),
		filepath.Join(dir, shared.KeyFile), filepath.Join(dir, shared.CertFile), filepath.Join(dir, shared.CAFile),
	} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want mode 0600", path, info.Mode(), err)
		}
	}
}

func TestThePrivateKeyOfTheAuthorityIsNotGivenToPlugins(t *testing.T) {
	inst := mustOpen(t, t.TempDir())
	dir := instanceFiles(t, mustKeys(t, inst), newInstance(t))
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Fatalf("the instance got %v (%v), want three files", entries, err)
	}
	key, err := os.ReadFile(filepath.Join(inst.Dir, caKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if content, _ := os.ReadFile(filepath.Join(dir, entry.Name())); string(content) == string(key) {
			t.Errorf("%s is the authority's key", entry.Name())
		}
	}
}

func TestKeysStay(t *testing.T) {
	inst := mustOpen(t, t.TempDir())
	first, second := mustKeys(t, inst), mustKeys(t, inst)
	if !bytes.Equal(authority(t, first), authority(t, second)) {
		t.Error("the authority was made anew")
	}
}

func TestAHalfMadeAuthorityIsMadeAnew(t *testing.T) {
	for _, missing := range []string{caKeyFile, caCertFile} {
		t.Run("without "+missing, func(t *testing.T) {
			inst := mustOpen(t, t.TempDir())
			before := mustKeys(t, inst)
			if err := os.Remove(filepath.Join(inst.Dir, missing)); err != nil {
				t.Fatal(err)
			}
			keys := mustKeys(t, inst)
			if bytes.Equal(authority(t, keys), authority(t, before)) {
				t.Error("the authority is the one before")
			}
			instance := newInstance(t)
			if err := speak(serve(t, instanceFiles(t, keys, instance)), keys.ClientTLS(instance)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestMakingAnAuthorityAnewCanBeInterrupted(t *testing.T) {
	// Where the old certificate is left beside a new key, neither can be used.
	inst := mustOpen(t, t.TempDir())
	mustKeys(t, inst)
	certPath, keyPath := filepath.Join(inst.Dir, caCertFile), filepath.Join(inst.Dir, caKeyFile)
	if err := os.Remove(keyPath); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(keyPath, 0o700); err != nil { // so that no key can be written
		t.Fatal(err)
	}
	if err := makeCA(inst.ID, certPath, keyPath); err == nil {
		t.Fatal("it was not interrupted")
	}
	if _, err := os.Stat(certPath); !os.IsNotExist(err) {
		t.Errorf("the old certificate is there: %v", err)
	}
	if err := os.Remove(keyPath); err != nil {
		t.Fatal(err)
	}
	mustKeys(t, inst)
}

func TestAnAuthorityThatMakesNoSenseIsRefused(t *testing.T) {
	inst := mustOpen(t, t.TempDir())
	mustKeys(t, inst)
	other := mustOpen(t, t.TempDir())
	mustKeys(t, other)
	foreign, err := os.ReadFile(filepath.Join(other.Dir, caKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"garbage": []byte("garbage"), "another's key": foreign} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(inst.Dir, caKeyFile)
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := inst.Keys()
			wantError(t, err, "cannot read the installation's keys")
			wantError(t, err, "remove "+filepath.Join(inst.Dir, caCertFile)+" and "+path)
			if got, _ := os.ReadFile(path); string(got) != string(content) {
				t.Error("the key was overwritten")
			}
		})
	}
}
