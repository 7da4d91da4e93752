package resend

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// conn tells when net/http closes it.
type conn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// server counts what it is asked, and can close its connections.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	seen  map[string]int
	conns map[net.Conn]bool
}

func newServer(t *testing.T) *server {
	s := &server{seen: make(map[string]int), conns: make(map[net.Conn]bool)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.seen[string(body)]++
		s.mu.Unlock()
		_, _ = w.Write(body)
	}))
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.conns[c] = true; state == http.StateClosed {
			delete(s.conns, c)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// hangUp closes all connections.
func (s *server) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Close()
	}
}

// A connection is closed when a request was given it, and before it is written.
func TestWhatWasNotSentIsSentAgain(t *testing.T) {
	s := newServer(t)
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		var dialer net.Dialer
		c, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &conn{Conn: c, closed: make(chan struct{})}, nil
	}}
	t.Cleanup(transport.CloseIdleConnections)
	var hungUp atomic.Int32
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if info.Reused {
			s.hangUp()
			<-info.Conn.(*conn).closed
			hungUp.Add(1)
		}
	}}
	ctx := httptrace.WithClientTrace(t.Context(), trace)
	client := &http.Client{Transport: &Transport{Next: transport}}
	const rounds = 50
	for round := range rounds {
		body := fmt.Sprint("round ", round)
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		answer, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || string(answer) != body {
			t.Errorf("the answer is %q, %v, want %q", answer, err, body)
		}
	}
	if hungUp.Load() < rounds/2 {
		t.Errorf("only %d connections were closed: the test tests little", hungUp.Load())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for body, n := range s.seen {
		if n != 1 {
			t.Errorf("%s was seen %d times", body, n)
		}
	}
	if len(s.seen) != rounds {
		t.Errorf("%d requests were seen, want %d", len(s.seen), rounds)
	}
}

// What the server may have seen is never made again.
func TestWhatWasSentIsNotSentAgain(t *testing.T) {
	var seen atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); string(body) == "first" {
			return
		}
		seen.Add(1)
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(web.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: &Transport{Next: transport}}
	for _, body := range []string{"first", "second"} {
		response, err := client.Post(web.URL, "text/plain", strings.NewReader(body))
		if err == nil {
			_ = response.Body.Close()
		}
		if (err != nil) != (body == "second") {
			t.Errorf("%s: %v", body, err)
		}
	}
	if seen.Load() != 1 {
		t.Errorf("the second was seen %d times", seen.Load())
	}
}
