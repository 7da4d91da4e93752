package guard

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plughost/plughost/host/internal/config"
)

// soon is what tests have clients take instead of minutes.
const soon = 300 * time.Millisecond

func hasty(g *Guard) { g.times = times{soon, soon} }

// eachProtocol runs a test over HTTP/1 and HTTP/2, with a client of it.
func eachProtocol(t *testing.T, next http.HandlerFunc, test func(t *testing.T, f *front, client *http.Client)) {
	t.Helper()
	t.Run("HTTP/1", func(t *testing.T) {
		f := serve(t, conf("127.0.0.1:0"), next, hasty)
		test(t, f, http.DefaultClient)
	})
	t.Run("HTTP/2", func(t *testing.T) {
		files := config.TLS{Certificate: filepath.Join(t.TempDir(), "cert.pem"), Key: filepath.Join(t.TempDir(), "key.pem")}
		roots := x509.NewCertPool()
		writePair(t, files, 1, roots)
		c := conf("127.0.0.1:0")
		c.Host.Gateway.TLS = files
		f := serve(t, c, next, hasty)
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost"}, ForceAttemptHTTP2: true}
		defer transport.CloseIdleConnections()
		test(t, f, &http.Client{Transport: transport})
	})
}

// What bounds the time of a client that sends or reads nothing does not end a
// stream on which nothing is written, nor a call that takes long.
func TestQuietStreamsLast(t *testing.T) {
	eachProtocol(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		for _, event := range []string{"first\n", "second\n"} {
			select {
			case <-time.After(2 * soon):
			case <-r.Context().Done():
				t.Error("the request was given up")
			}
			_, _ = io.WriteString(w, event)
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
		}
	}, func(t *testing.T, f *front, client *http.Client) {
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
	given := make(chan error, 1)
	eachProtocol(t, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		given <- err
	}, func(t *testing.T, f *front, client *http.Client) {
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
	})
}

func TestClientThatDoesNotReadIsGivenUp(t *testing.T) {
	given := make(chan error, 1)
	f := serve(t, conf("127.0.0.1:0"), func(w http.ResponseWriter, _ *http.Request) {
		var err error
		for err == nil {
			_, err = io.WriteString(w, strings.Repeat("x", 1<<20))
		}
		given <- err
	}, hasty)
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
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
}

func TestRequestWhoseBodyNobodyReadsIsAnswered(t *testing.T) {
	hasty := func(g *Guard) { g.times.body = soon }
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
