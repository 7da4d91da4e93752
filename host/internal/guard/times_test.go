package guard

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plughost/plughost/host/internal/config"
)

// pipes listens for connections in memory. Their deadlines follow the time of a
// bubble, in which no delay of the machine counts.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "localhost"} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// eachProtocol runs a test over HTTP/1 and HTTP/2, with a client of it, in a
// bubble. What it makes is what serves, and the test.
func eachProtocol(t *testing.T, made func(t *testing.T) (next http.HandlerFunc, test func(f *front, client *http.Client))) {
	t.Helper()
	run := func(t *testing.T, c *config.Config, roots *x509.CertPool) {
		next, test := made(t)
		listener := newPipes()
		f := serveOn(t, listener, c, next)
		transport := &http.Transport{
			DialContext: listener.dial, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost"}, ForceAttemptHTTP2: true,
		}
		defer transport.CloseIdleConnections()
		test(f, &http.Client{Transport: transport})
	}
	t.Run("HTTP/1", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { run(t, conf("127.0.0.1:0"), nil) })
	})
	t.Run("HTTP/2", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			files := config.TLS{Certificate: filepath.Join(t.TempDir(), "cert.pem"), Key: filepath.Join(t.TempDir(), "key.pem")}
			roots := x509.NewCertPool()
			writePair(t, files, 1, roots)
			c := conf("127.0.0.1:0")
			c.Host.Gateway.TLS = files
			run(t, c, roots)
		})
	})
}

// What bounds the time of a client that sends or reads nothing does not end a
// stream on which nothing is written, nor a call that takes long.
func TestQuietStreamsLast(t *testing.T) {
	eachProtocol(t, func(t *testing.T) (http.HandlerFunc, func(*front, *http.Client)) {
		next := func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			for _, event := range []string{"first\n", "second\n"} {
				select {
				case <-time.After(2 * max(bodyTimeout, writeTimeout)):
				case <-r.Context().Done():
					t.Error("the request was given up")
				}
				_, _ = io.WriteString(w, event)
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
			}
		}
		return next, func(f *front, client *http.Client) {
			for range 2 { // the second on the same connection
				response, err := client.Post(f.url+"/mcp", "text/plain", strings.NewReader("{}"))
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(response.Body)
				_ = response.Body.Close()
				if err != nil || string(text) != "first\nsecond\n" {
					t.Errorf("got %q, %v", text, err)
				}
			}
		}
	})
}

// stalled is a body of which one byte comes, and then nothing.
type stalled struct {
	begun bool
	over  <-chan struct{}
}

func (s *stalled) Read(p []byte) (int, error) {
	if !s.begun {
		s.begun = true
		p[0] = '{'
		return 1, nil
	}
	<-s.over
	return 0, io.EOF
}

func TestBodyThatDoesNotComeIsNotWaitedFor(t *testing.T) {
	eachProtocol(t, func(t *testing.T) (http.HandlerFunc, func(*front, *http.Client)) {
		given := make(chan error, 1)
		next := func(_ http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			given <- err
		}
		return next, func(f *front, client *http.Client) {
			over := make(chan struct{})
			done := make(chan struct{})
			go func() {
				defer close(done)
				if response, err := client.Post(f.url+"/mcp", "text/plain", &stalled{over: over}); err == nil {
					_ = response.Body.Close()
				}
			}()
			if err := <-given; err == nil {
				t.Error("half a body was taken for a whole one")
			}
			close(over)
			<-done
		}
	})
}

func TestClientThatDoesNotReadIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		given := make(chan error, 1)
		listener := newPipes()
		serveOn(t, listener, conf("127.0.0.1:0"), func(w http.ResponseWriter, _ *http.Request) {
			var err error
			for err == nil {
				_, err = io.WriteString(w, strings.Repeat("x", 1<<20))
			}
			given <- err
		})
		conn, err := listener.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReaderSize(conn, 16).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Errorf("the answer begins with %q, %v", line, err)
		}
		if err := <-given; err == nil {
			t.Error("it goes on for ever")
		}
	})
}

func TestRequestWhoseBodyNobodyReadsIsAnswered(t *testing.T) {
	hasty := func(g *Guard) { g.times.body = 300 * time.Millisecond }
	for name, f := range map[string]*front{
		"refused": serve(t, conf("127.0.0.1:0", tokenOf("alice", aliceToken, everything())), whoCalls, hasty),
		"answered without a look at it": serve(t, conf("127.0.0.1:0"), func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
		}, hasty),
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			if _, err := io.WriteString(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(conn)
			if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 401 ") {
				t.Errorf("got %q, %v", answer, err)
			}
		})
	}
}
