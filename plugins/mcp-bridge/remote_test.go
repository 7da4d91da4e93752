//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/bridge"
	"github.com/plughost/plughost/test/idleconn"
)

const secret = "Bearer of-a-canary"

// elsewhere is a remote server that knows who asks by a header. What it answers
// is given by wrap, if that is not nil.
func elsewhere(t *testing.T, wrap func(http.Handler) http.Handler) (target bridge.Target) {
	t.Helper()
	var handler http.Handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return newServer() }, nil)
	if wrap != nil {
		handler = wrap(handler)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != secret {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return bridge.Target{URL: server.URL + "/mcp?key=of-a-canary", Headers: map[string]string{"Authorization": secret}}
}

func TestRemoteServerIsServed(t *testing.T) {
	t.Parallel()
	h := hostTarget(t, elsewhere(t, nil))
	var all heard
	options := all.options()
	options.ElicitationHandler = answering("accept").ElicitationHandler
	session := h.connect(options)
	if got, failed := callTool(t, session, "ask"); failed || got != "accept" {
		t.Errorf("the server was told %q, want what the client said", got)
	}
	if err := session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: watched}); err != nil {
		t.Fatal(err)
	}
	until(t, "the client hears of the resource", func() bool { // the bridge may listen a little later
		callTool(t, session, "update")
		return all.has(watched)
	})
	callTool(t, session, "change")
	until(t, "the client hears of the tools", func() bool { return all.has("tools") })
	if all.has(plain) {
		t.Error("the client hears of a resource that it did not ask for")
	}
	_, giveUp := h.waiting(&mcp.ClientOptions{})
	giveUp()
	if err := h.backend.Health(t.Context()); err != nil {
		t.Errorf("the server is not healthy: %v", err)
	}
}

func TestRemoteServerThatRefusesIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	target := elsewhere(t, nil)
	target.Headers = nil
	err := newRemote(target, log.New(io.Discard, "", 0)).Start()
	var exit *shared.ExitError
	if !errors.As(err, &exit) || exit.Status != exitConfig || !strings.Contains(err.Error(), "401") {
		t.Errorf("the start fails with %v, want the status, and EX_CONFIG", err)
	}
}

// TestRemoteServerComesBack has a server that is away at the start, forgets its
// sessions, and is away again.
func TestRemoteServerComesBack(t *testing.T) {
	t.Parallel()
	var requests, away atomic.Int64
	away.Store(2)
	forget := make(chan struct{}, 1)
	h := hostTarget(t, elsewhere(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				next.ServeHTTP(w, r)
				return
			}
			requests.Add(1)
			if away.Add(-1) >= 0 {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			select {
			case <-forget:
				w.WriteHeader(http.StatusNotFound)
			default:
				next.ServeHTTP(w, r)
			}
		})
	}))
	if requests.Load() < 3 {
		t.Errorf("the server was asked %d times until it answered, want 3 at the least", requests.Load())
	}
	session := h.connect(nil)
	if text, failed := callTool(t, session, "pid"); failed {
		t.Fatal(text)
	}
	away.Store(1)
	if text, failed := callTool(t, session, "pid"); !failed || !strings.Contains(text, "502") {
		t.Errorf("a call to a server that is away: %s, want its status", text)
	}
	if text, failed := callTool(t, session, "pid"); failed {
		t.Errorf("a call to a server that is back: %s", text)
	}
	forget <- struct{}{}
	if text, failed := callTool(t, session, "pid"); !failed {
		t.Errorf("a call in a session that is forgotten: %s", text)
	}
	if text, failed := callTool(t, h.connect(nil), "pid"); failed {
		t.Errorf("a call in a new session: %s", text)
	}
	forget <- struct{}{}
	if err := h.backend.Health(t.Context()); err != nil {
		t.Errorf("after its own session was forgotten the bridge says: %v", err)
	}
}

// It would be used in the poorer way until the bridge is started again.
func TestWhatFailsInPassingWhileAServerIsGreetedIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, method string
		fail         func(http.ResponseWriter)
		times        int64
		alone        bool
	}{
		{"discover has no time", methodDiscover, func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }, 2, true},
		{"discover breaks off", methodDiscover, func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 2, true},
		{"initialize has no time", "initialize", func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) }, 2, true},
		{"discover is not known", methodDiscover, func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadRequest) }, 1, false},
		{"discover has never time", methodDiscover, func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }, 1 + maxGreetings, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			var failed atomic.Int64
			next := handlerOfBoth()
			r := newRemote(elsewhere(t, func(http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					r.Body = io.NopCloser(bytes.NewReader(body))
					if bytes.Contains(body, []byte(c.method+`"`)) && failed.Load() < c.times {
						failed.Add(1)
						c.fail(w)
						return
					}
					next.ServeHTTP(w, r)
				})
			}), log.New(io.Discard, "", 0))
			defer r.Stop(t.Context())
			if err := r.Start(); err != nil {
				t.Fatal(err)
			}
			if !r.sessions || (r.alone != nil) != c.alone || failed.Load() != c.times {
				t.Errorf("with sessions: %t, without: %t, after %d failures; want true, %t and %d", r.sessions, r.alone != nil, failed.Load(), c.alone, c.times)
			}
		})
	}
}

func TestSecretsOfRemoteServersAreNotTold(t *testing.T) {
	t.Parallel()
	stolen := make(chan string, 1)
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { stolen <- r.Header.Get("Authorization") }))
	defer thief.Close()
	for name, target := range map[string]bridge.Target{
		"redirected": elsewhere(t, func(http.Handler) http.Handler {
			return http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect)
		}),
		"unreachable": {URL: "http://127.0.0.1:1/?key=of-a-canary", Headers: map[string]string{"Authorization": secret}},
		"no address":  {URL: "http://[of-a-canary", Headers: map[string]string{"Authorization": secret}},
	} {
		var text strings.Builder
		r := newRemote(target, log.New(&text, "", 0))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err := r.greet(ctx)
		cancel()
		if err == nil {
			t.Errorf("%s: the server is greeted", name)
			continue
		}
		if strings.Contains(err.Error()+text.String(), "canary") {
			t.Errorf("%s: the secret is told: %v %s", name, err, text.String())
		}
	}
	select {
	case got := <-stolen:
		t.Errorf("another server was sent the headers: %q", got)
	default:
	}
}

func TestEventsAreReadAsTheStandardHasThem(t *testing.T) {
	t.Parallel()
	reader := newEvents(strings.NewReader(": a comment\n\nid: 1\nretry: 20\nevent: message\ndata: {\ndata:}\n\nid: 2\ndata\n\n\nid: 3\ndata: cut off"))
	for _, want := range []event{{"1", []byte("{\n}"), 20 * time.Millisecond}, {"2", nil, 20 * time.Millisecond}} {
		got, err := reader.next()
		if err != nil || got.id != want.id || string(got.data) != string(want.data) || got.retry != want.retry {
			t.Errorf("read %+v, %v; want %+v", got, err, want)
		}
	}
	if got, err := reader.next(); !errors.Is(err, io.EOF) {
		t.Errorf("an event that is cut off is read: %+v, %v", got, err)
	}
}

// A server that takes no notification holds up nothing of a call that nobody waits
// for.
func TestCancelledRemoteCallIsOverAtOnce(t *testing.T) {
	t.Parallel()
	began := make(chan struct{})
	h := hostTarget(t, elsewhere(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			switch {
			case strings.Contains(string(body), "tools/call"):
				close(began)
				<-r.Context().Done()
			case strings.Contains(string(body), "notifications/cancelled"):
				<-r.Context().Done()
			}
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			next.ServeHTTP(w, r)
		})
	}))
	send, receive, _ := h.rawSession()
	send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	receive()
	send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pid","arguments":{}}}`)
	within(t, began, "the call began")
	send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	ctx, cancel := context.WithTimeout(t.Context(), tellTimeout/2)
	defer cancel()
	if err := h.work.Drain(ctx); err != nil {
		t.Errorf("the call counts as in flight still: %v", err)
	}
}

// greetHandler answers initialize, and hands over all else.
func greetHandler(next http.HandlerFunc) func(http.Handler) http.Handler {
	return always(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		switch {
		case bytes.Contains(body, []byte(`"initialize"`)):
			w.Header().Set("Mcp-Session-Id", "s")
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`)
		case bytes.Contains(body, []byte(`"notifications/`)):
			w.WriteHeader(http.StatusAccepted)
		case r.Method == http.MethodDelete, bytes.Contains(body, []byte(methodDiscover)):
			w.WriteHeader(http.StatusMethodNotAllowed)
		default:
			next(w, r)
		}
	}))
}

// remotely opens a session with a remote server that answers initialize by itself.
func remotely(t *testing.T, next http.HandlerFunc) (send func(string), receive func() string) {
	t.Helper()
	send, receive, _ = hostTarget(t, elsewhere(t, greetHandler(next))).rawSession()
	send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	receive()
	send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return send, receive
}

func streamed(w http.ResponseWriter, events string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, events)
	w.(http.Flusher).Flush()
}

// What is in front of a server may be up before it.
func TestRestOfAnAnswerIsAskedForUntilTheServerIsBack(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	send, receive := remotely(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			streamed(w, "id: 7\ndata:\n\n")
		case r.Header.Get("Last-Event-Id") != "7":
			w.WriteHeader(http.StatusMethodNotAllowed)
		case asked.Add(1) == 1:
			w.WriteHeader(http.StatusBadGateway)
		default:
			streamed(w, `data: {"jsonrpc":"2.0","id":2,"result":{}}`+"\n\n")
		}
	})
	send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t"}}`)
	if got := receive(); !strings.Contains(got, `"result":{}`) {
		t.Errorf("the call is answered %s", got)
	}
}

func TestServerThatHasNoTimeIsListenedToLater(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	_, receive := remotely(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		streamed(w, `data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`+"\n\n")
		<-r.Context().Done()
	})
	if got := receive(); !strings.Contains(got, "list_changed") {
		t.Errorf("the client hears %s", got)
	}
}

// Why a server refuses a message without reading its id is in the body.
func TestReasonsOfRemoteServersAreTold(t *testing.T) {
	t.Parallel()
	send, receive := remotely(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no \"good\" session"}}`)
	})
	send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t"}}`)
	want := `{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"the remote server answers 400 Bad Request: no \"good\" session"}}`
	if got := receive(); got != want {
		t.Errorf("the call is answered %s, want %s", got, want)
	}
}

// A redirect that makes a GET of a POST has no answer to it.
func TestRedirectThatLosesTheRequestIsNotFollowed(t *testing.T) {
	t.Parallel()
	send, receive := remotely(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/mcp" && r.Method == http.MethodPost:
			http.Redirect(w, r, "/mcp/", http.StatusMovedPermanently)
		case r.URL.Path == "/mcp/":
			streamed(w, `data: {"jsonrpc":"2.0","id":2,"result":{}}`+"\n\n")
		default:
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
	})
	send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t"}}`)
	if got := receive(); !strings.Contains(got, "301 Moved Permanently") {
		t.Errorf("the call is answered %s", got)
	}
}

func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	long := "id: 1\ndata: " + strings.Repeat("x", 100<<10) + "\ndata: more\n\n"
	many := "id: 2\n" + strings.Repeat("data: much\n", 20<<10) + "\n"
	reader := newEvents(strings.NewReader(long + many + "id: 3\ndata: next\n\n"))
	reader.lines.max = 64 << 10
	for _, want := range []string{"1", "2"} {
		if got, err := reader.next(); !errors.Is(err, errLongEvent) || got.id != want {
			t.Errorf("read event %q, %v; want that %q is too long", got.id, err, want)
		}
	}
	if got, err := reader.next(); err != nil || got.id != "3" || string(got.data) != "next" {
		t.Errorf("then comes event %q with %.99q, %v", got.id, got.data, err)
	}
}

// A stop may come while the bridge is connecting.
func TestRemoteServerIsStoppedWhileItIsGreeted(t *testing.T) {
	t.Parallel()
	for range 20 {
		open := make(map[string]bool)
		var mu sync.Mutex
		greeted := make(chan struct{}, 1)
		target := elsewhere(t, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(w, r)
				mu.Lock()
				defer mu.Unlock()
				switch id := r.Header.Get("Mcp-Session-Id"); {
				case r.Method == http.MethodDelete:
					delete(open, id)
				case id != "":
					open[id] = true
					greeted <- struct{}{}
				}
			})
		})
		r := newRemote(target, log.New(io.Discard, "", 0))
		ended := make(chan error, 1)
		go func() { ended <- r.Start() }()
		within(t, greeted, "the server is greeted")
		r.Stop(t.Context())
		t.Log("the start:", <-ended) // the stop came before its end, or after
		mu.Lock()
		if len(open) != 0 {
			t.Error("the session of a bridge that was stopped is open")
		}
		mu.Unlock()
	}
}

// It need not keep for long what it has for them.
func TestRemoteServerHearsThatSessionsEndWithTheBridge(t *testing.T) {
	t.Parallel()
	deleted := make(chan string, 10)
	h := hostTarget(t, elsewhere(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			next.ServeHTTP(w, r)
			if r.Method == http.MethodDelete {
				deleted <- r.Header.Get("Mcp-Session-Id")
			}
		})
	}))
	h.connect(nil)
	h.connect(nil)
	h.backend.Stop(t.Context())
	if n := len(deleted); n != 3 {
		t.Errorf("the server hears of the end of %d sessions, want 3", n)
	}
}

func TestIdleConnectionIsClosedBeforeServersDo(t *testing.T) {
	t.Parallel()
	idleconn.Closes(t, func(url string) *http.Client { return newEndpoint(url, nil).http })
}
