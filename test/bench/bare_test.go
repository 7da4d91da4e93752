//go:build linux

package bench

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/plughost/plughost/shared"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// bareStart is the bare cost of starting n plugins at once: fork, exec,
// go-plugin's handshake and the first answer, without anything that a host does
// beside it. It returns how long that took; the plugins are killed then.
func bareStart(b *testing.B, n int) time.Duration {
	b.Helper()
	dir, conf := bareKeys(b)
	clients := make([]*plugin.Client, n)
	var wg sync.WaitGroup
	start := time.Now()
	for i := range clients {
		wg.Go(func() {
			cmd := exec.Command(filepath.Join(binaries, "mcp-example"))
			cmd.Env = []string{shared.EnvInstanceDir + "=" + dir}
			clients[i] = plugin.NewClient(&plugin.ClientConfig{
				HandshakeConfig:  shared.Handshake(),
				Plugins:          shared.Plugins(),
				AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
				TLSConfig:        conf,
				SkipHostEnv:      true,
				StartTimeout:     patience,
				Logger:           hclog.NewNullLogger(),
				UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: dir},
				Cmd:              cmd,
			})
			protocol, err := clients[i].Client()
			if err != nil {
				b.Error(err)
				return
			}
			raw, err := protocol.Dispense(shared.PluginName)
			if err != nil {
				b.Error(err)
				return
			}
			_, err = plughostv1.NewPluginClient(raw.(*grpc.ClientConn)).Describe(context.Background(), &plughostv1.DescribeRequest{})
			if err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	for _, client := range clients {
		wg.Go(client.Kill)
	}
	wg.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return took
}

// bareKeys makes the TLS files that a plugin wants to have, one pair for all of
// them, and what the other side needs. The directory is removed with the
// benchmark.
func bareKeys(b *testing.B) (dir string, conf *tls.Config) {
	b.Helper()
	dir, err := os.MkdirTemp("", "plughost-bare-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		DNSNames:              []string{"plugin"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		b.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		b.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	for name, content := range map[string][]byte{shared.CAFile: certPEM, shared.CertFile: certPEM, shared.KeyFile: keyPEM} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		b.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return dir, &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{pair},
		RootCAs:      pool,
		ServerName:   "plugin",
	}
}
