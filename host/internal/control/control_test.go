//go:build unix

package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/supervise"
)

// services are ones that only note what is asked of them.
type services struct {
	mu    sync.Mutex
	asked []string
	// answer takes the place of success at once.
	answer func(ctx context.Context) error
}

func (s *services) ask(ctx context.Context, verb Verb, ref config.Ref) error {
	s.mu.Lock()
	s.asked = append(s.asked, string(verb)+" "+ref.String())
	answer := s.answer
	s.mu.Unlock()
	if answer == nil {
		return nil
	}
	return answer(ctx)
}

func (s *services) Start(ctx context.Context, ref config.Ref) error { return s.ask(ctx, Start, ref) }

func (s *services) Stop(ctx context.Context, ref config.Ref) error { return s.ask(ctx, Stop, ref) }

func (s *services) Restart(ctx context.Context, ref config.Ref) error {
	return s.ask(ctx, Restart, ref)
}

var (
	clock     = config.Ref{Kind: config.KindMCP, Name: "clock"}
	assistant = config.Ref{Kind: config.KindAgent, Name: "assistant"}

	someStatus = Status{
		Version: "1.2.3", PID: 42, Installation: "id", StateDir: "/var/lib/plughost", Started: time.Unix(1e9, 0).UTC(),
		Gateway: "http://127.0.0.1:7433", Ready: true,
		Services: []ServiceStatus{
			{Status: supervise.Status{Service: clock, State: supervise.Ready, Since: time.Unix(1e9, 1).UTC(), Cause: "it answers", Instance: "i", PID: 43, Port: 8101, Restarts: 2}},
			{Status: supervise.Status{
				Service: assistant, State: supervise.Backoff, Since: time.Unix(1e9, 2).UTC(),
				NextTry: time.Unix(1e9, 3).UTC(), LastError: "it failed <badly>",
			}},
		},
	}
)

// statusNow is someStatus, with usage if that is asked for.
func statusNow(_ context.Context, usage bool) Status {
	status := someStatus
	if usage {
		status.Services = slices.Clone(status.Services)
		status.Services[0].Usage = &Usage{MemoryBytes: 1 << 20, CPUSeconds: 0.25, Processes: 3}
	}
	return status
}

// shortDir is a directory whose path is short enough for sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "control-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// serve runs a server to the end of the test, after it was prepared.
func serve(t *testing.T, s Services, prepare ...func(*Server)) (path string, server *Server) {
	t.Helper()
	path = filepath.Join(shortDir(t), "control.sock")
	listener, err := Listen(path, Nobody)
	if err != nil {
		t.Fatal(err)
	}
	server = NewServer(s, statusNow)
	for _, f := range prepare {
		f(server)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // at once
		_ = server.Shutdown(ctx)
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return path, server
}

func TestStatusComesAsItIs(t *testing.T) {
	path, _ := serve(t, &services{})
	client := NewClient(path)
	for range 2 { // over one connection
		got, err := client.Status(t.Context())
		if err != nil || !reflect.DeepEqual(got, someStatus) {
			t.Errorf("got %+v, %v\nwant %+v", got, err, someStatus)
		}
	}
}

func TestVerbsReachTheirServices(t *testing.T) {
	s := &services{}
	path, _ := serve(t, s)
	client := NewClient(path)
	var want []string
	for _, verb := range []Verb{Start, Stop, Restart} {
		for _, ref := range []config.Ref{clock, assistant} {
			if err := client.Do(t.Context(), ref, verb); err != nil {
				t.Errorf("%s %s: %v", verb, ref, err)
			}
			want = append(want, string(verb)+" "+ref.String())
		}
	}
	if !reflect.DeepEqual(s.asked, want) {
		t.Errorf("asked was %q, want %q", s.asked, want)
	}
}

func TestNamesAreNotPartOfThePath(t *testing.T) {
	s := &services{}
	path, _ := serve(t, s)
	ref := config.Ref{Kind: "mcp", Name: "../a b/stop?x=%2f#"}
	if err := NewClient(path).Do(t.Context(), ref, Start); err != nil {
		t.Fatal(err)
	}
	if want := []string{"start " + ref.String()}; !reflect.DeepEqual(s.asked, want) {
		t.Errorf("asked was %q, want %q", s.asked, want)
	}
}

func TestTheAnswerComesWhenItIsDone(t *testing.T) {
	reached, done := make(chan struct{}), make(chan struct{})
	path, _ := serve(t, &services{answer: func(context.Context) error {
		close(reached)
		<-done
		return nil
	}})
	answered := make(chan error, 1)
	go func() { answered <- NewClient(path).Do(context.Background(), clock, Stop) }()
	<-reached
	// A request that takes long holds up no other.
	if _, err := NewClient(path).Status(t.Context()); err != nil {
		t.Error(err)
	}
	select {
	case err := <-answered:
		t.Errorf("it was answered before it was done: %v", err)
	default:
	}
	close(done)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestAClientThatLeavesEndsItsWait(t *testing.T) {
	reached, left := make(chan struct{}), make(chan struct{})
	path, _ := serve(t, &services{answer: func(ctx context.Context) error {
		close(reached)
		<-ctx.Done()
		close(left)
		return ctx.Err()
	}})
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() { answered <- NewClient(path).Do(ctx, clock, Start) }()
	<-reached
	cancel()
	if err := <-answered; !errors.Is(err, context.Canceled) || errors.Is(err, ErrNoHost) {
		t.Errorf("the error is %v", err)
	}
	<-left
}

// raw is a request without the client.
func raw(t *testing.T, path, method, url string) (code int, body string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
	request, err := http.NewRequestWithContext(t.Context(), method, "http://plughost"+url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

func TestErrorsHaveTheirCodes(t *testing.T) {
	unknown := &supervise.UnknownServiceError{Ref: clock}
	tests := []struct {
		name string
		err  error
		code int
	}{
		{"an unknown service", unknown, http.StatusNotFound},
		{"wrapped", fmt.Errorf("no: %w", unknown), http.StatusNotFound},
		{"the host is ending", supervise.ErrShuttingDown, http.StatusServiceUnavailable},
		{"anything else", errors.New(`cannot start: "x" <y>`), http.StatusConflict},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path, _ := serve(t, &services{answer: func(context.Context) error { return test.err }})
			code, body := raw(t, path, http.MethodPost, "/v1/services/mcp/clock/start")
			var message Error
			if err := json.Unmarshal([]byte(body), &message); err != nil || code != test.code || message.Message != test.err.Error() {
				t.Errorf("got %d %s (%v), want %d with %q", code, body, err, test.code, test.err)
			}
			if err := NewClient(path).Do(t.Context(), clock, Start); err == nil || err.Error() != test.err.Error() {
				t.Errorf("the client says %v, want %v", err, test.err)
			}
		})
	}
}

func TestRequestsThatMakeNoSense(t *testing.T) {
	s := &services{}
	path, _ := serve(t, s)
	tests := []struct {
		method, url string
		code        int
		body        string
	}{
		{http.MethodPost, "/v1/services/mcp/clock/explode", http.StatusNotFound, `there is no verb \"explode\": use start, stop or restart`},
		{http.MethodGet, "/v1/services/mcp/clock/start", http.StatusMethodNotAllowed, ""},
		{http.MethodPost, "/v1/status", http.StatusMethodNotAllowed, ""},
		{http.MethodPost, "/v1/services/mcp/start", http.StatusNotFound, ""},
		{http.MethodGet, "/", http.StatusNotFound, ""},
	}
	for _, test := range tests {
		if code, body := raw(t, path, test.method, test.url); code != test.code || !strings.Contains(body, test.body) {
			t.Errorf("%s %s: %d %s, want %d with %s", test.method, test.url, code, body, test.code, test.body)
		}
	}
	err := NewClient(path).Do(t.Context(), clock, "explode")
	if err == nil || err.Error() != `there is no verb "explode": use start, stop or restart` {
		t.Errorf("the client says %v", err)
	}
	if len(s.asked) > 0 {
		t.Errorf("services were asked %q", s.asked)
	}
}

// leaveSocket leaves a socket on which nobody listens.
func leaveSocket(t *testing.T, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
}

func TestNoHost(t *testing.T) {
	dir := shortDir(t)
	stale := filepath.Join(dir, "stale.sock")
	leaveSocket(t, stale)
	for name, path := range map[string]string{
		"no socket":       filepath.Join(dir, "control.sock"),
		"no directory":    filepath.Join(dir, "run", "control.sock"),
		"a socket behind": stale,
	} {
		_, err := NewClient(path).Status(t.Context())
		if !errors.Is(err, ErrNoHost) || strings.Contains(err.Error(), "http://") {
			t.Errorf("%s: %v", name, err)
		}
		if err := NewClient(path).Do(t.Context(), clock, Stop); !errors.Is(err, ErrNoHost) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAHostThatCannotBeReachedIsNotNoHost(t *testing.T) {
	_, err := NewClient(filepath.Join(shortDir(t), strings.Repeat("x", 200))).Status(t.Context())
	if err == nil || errors.Is(err, ErrNoHost) || !strings.Contains(err.Error(), "cannot reach the host") {
		t.Errorf("the error is %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path, _ := serve(t, &services{})
	if _, err := NewClient(path).Status(ctx); errors.Is(err, ErrNoHost) || !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

// The kernel connects clients to a host that is suspended.
func TestHostThatDoesNotAnswerIsToldFromOneThatTakesItsTime(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client := NewClient(path)
	client.Patience = time.Millisecond
	_, statusErr := client.Status(t.Context())
	var silent *SilentError
	for name, err := range map[string]error{"status": statusErr, "stop": client.Do(t.Context(), clock, Stop)} {
		if !errors.As(err, &silent) || !strings.Contains(err.Error(), "has not answered within 1ms") {
			t.Errorf("%s: %v", name, err)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Status(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("who does not wait is told: %v", err)
	}
}

func TestListenTakesThePlaceOfWhatIsLeft(t *testing.T) {
	dir := shortDir(t)
	path := filepath.Join(dir, "control.sock")
	leaveSocket(t, path)
	for range 2 {
		listener, err := Listen(path, Nobody)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
			t.Errorf("%v, %v; want a socket of mode 0600", info.Mode(), err)
		}
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("the socket is left: %v", err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil { // for the second time
			t.Fatal(err)
		}
	}

	if err := os.MkdirAll(filepath.Join(dir, "full", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{filepath.Join(dir, "full"), filepath.Join(dir, "not there", "s"), filepath.Join(dir, strings.Repeat("x", 200))} {
		if _, err := Listen(bad, Nobody); err == nil || !strings.Contains(err.Error(), "cannot open the control socket") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestShutdownLetsRequestsEnd(t *testing.T) {
	reached, done := make(chan struct{}), make(chan struct{})
	path, server := serve(t, &services{answer: func(context.Context) error {
		close(reached)
		<-done
		return nil
	}})
	answered, shut := make(chan error, 1), make(chan error, 1)
	go func() { answered <- NewClient(path).Do(context.Background(), clock, Stop) }()
	<-reached
	ending := make(chan struct{}, 2) // the end of the test shuts down, too
	server.http.RegisterOnShutdown(func() { ending <- struct{}{} })
	go func() { shut <- server.Shutdown(context.Background()) }()
	<-ending
	close(done)
	if err := errors.Join(<-answered, <-shut); err != nil {
		t.Error(err)
	}
	if _, err := NewClient(path).Status(t.Context()); !errors.Is(err, ErrNoHost) {
		t.Errorf("after the shutdown: %v", err)
	}
}

func TestShutdownCutsOffWhatDoesNotEnd(t *testing.T) {
	reached := make(chan struct{})
	path, server := serve(t, &services{answer: func(ctx context.Context) error {
		close(reached)
		<-ctx.Done()
		return ctx.Err()
	}})
	answered := make(chan error, 1)
	go func() { answered <- NewClient(path).Do(context.Background(), clock, Stop) }()
	<-reached
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := server.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v", err)
	}
	if err := <-answered; err == nil || errors.Is(err, ErrNoHost) || !strings.Contains(err.Error(), "cannot reach the host") {
		t.Errorf("the client says %v", err)
	}
}

func TestShutdownBeforeServe(t *testing.T) {
	path := filepath.Join(shortDir(t), "control.sock")
	listener, err := Listen(path, Nobody)
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(&services{}, func(context.Context, bool) Status { return Status{} })
	if err := server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := server.Serve(listener); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}

func TestAnswersThatAreNotAHosts(t *testing.T) {
	tests := []struct {
		name, answer, want string
	}{
		{"another server's error", "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\n\r\noops", "the host answered 502 Bad Gateway"},
		{"an error without a message", "HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\n{}", "the host answered 409 Conflict"},
		{"no JSON", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\noops", "cannot read the host's answer"},
		{"an answer that is cut off", "HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n{\"version\":", "cannot read the host's answer"},
		{"no HTTP", "SSH-2.0-OpenSSH\r\n", "cannot reach the host"},
		{"nothing", "", "cannot reach the host"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(shortDir(t), "s")
			l, err := net.Listen("unix", path)
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
					_, _ = conn.Read(make([]byte, 4096))
					_, _ = io.WriteString(conn, test.answer)
					_ = conn.Close()
				}
			}()
			_, err = NewClient(path).Status(t.Context())
			if err == nil || errors.Is(err, ErrNoHost) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
			_ = l.Close()
			<-done
		})
	}
}
