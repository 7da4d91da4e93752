package stdio

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/shared/mcphttp"
	"github.com/plughost/plughost/shared/resend"
)

// host is one that can end and be there again, with no memory of before.
type host struct {
	t      *testing.T
	path   string
	server func() *mcp.Server
	web    *http.Server
	back   chan struct{} // closed while there is one
	mu     sync.Mutex
	starts int
	idle   time.Duration // after which sessions end; 0 for the default

	lastWords time.Duration // of the relay; 0 for the default
	wrap      func(http.Handler) http.Handler
}

func newHost(t *testing.T, server func() *mcp.Server) *host {
	t.Helper()
	return newForgetfulHost(t, 0, server)
}

// newForgetfulHost makes a host whose sessions end when they were idle for long.
func newForgetfulHost(t *testing.T, idle time.Duration, server func() *mcp.Server) *host {
	t.Helper()
	h := &host{t: t, path: filepath.Join(t.TempDir(), "s"), server: server, back: make(chan struct{}), idle: idle}
	h.start()
	t.Cleanup(func() { _ = h.web.Close() })
	return h
}

func (h *host) start() {
	h.t.Helper()
	listener, err := net.Listen("unix", h.path)
	if err != nil {
		h.t.Fatal(err)
	}
	server := h.server()
	handler := mcphttp.Handler(func(*http.Request) *mcp.Server { return server }, mcphttp.Options{Guarded: true, SessionTimeout: h.idle})
	if h.wrap != nil {
		handler = h.wrap(handler)
	}
	web := &http.Server{Handler: handler}
	go func() { _ = web.Serve(listener) }()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.web = web
	h.starts++
	close(h.back)
}

// end ends the host as a crash does.
func (h *host) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.back = make(chan struct{})
	_ = h.web.Close()
}

func (h *host) await(ctx context.Context) error {
	h.mu.Lock()
	back := h.back
	h.mu.Unlock()
	select {
	case <-back:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// client is what the relay serves: its standard input and output.
type client struct {
	in    *io.PipeWriter
	out   *io.PipeReader
	ended chan error
}

func (h *host) relay() *client {
	h.t.Helper()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", h.path)
	}
	transport := &http.Transport{DialContext: dial}
	relay := &Relay{
		Endpoint: "http://host/mcp",
		HTTP:     &http.Client{Transport: &resend.Transport{Next: transport}},
		Await:    h.await,
		Warn:     func(format string, args ...any) { h.t.Logf(format, args...) },
		alive:    h.idle / 20,
		last:     h.lastWords,
	}
	inReader, inWriter := io.Pipe()
	outReader, outWriter := io.Pipe()
	c := &client{in: inWriter, out: outReader, ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.ended <- relay.Run(ctx, inReader, outWriter)
		_ = outWriter.Close()
	}()
	h.t.Cleanup(func() {
		_, _ = inWriter.Close(), outReader.Close()
		cancel()
		<-done
		transport.CloseIdleConnections()
	})
	return c
}

func (c *client) connect(t *testing.T, revision string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "client"}, opts).Connect(t.Context(),
		&mcp.IOTransport{Reader: c.out, Writer: c.in}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	return session
}

func addTool(server *mcp.Server, name string, handler mcp.ToolHandler) {
	server.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, handler)
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func call(ctx context.Context, session *mcp.ClientSession, tool string) (string, error) {
	params := &mcp.CallToolParams{Name: tool}
	params.SetProgressToken("token")
	result, err := session.CallTool(ctx, params)
	if err != nil {
		return "", err
	}
	return result.Content[0].(*mcp.TextContent).Text, nil
}

const (
	legacy = "2025-11-25"
	modern = "2026-07-28"
)

func TestOfficialClientOfEachRevision(t *testing.T) {
	cancelled := make(chan struct{}, 1)
	waiting := make(chan struct{}, 1)
	h := newHost(t, func() *mcp.Server {
		server := mcp.NewServer(&mcp.Implementation{Name: "server"}, nil)
		addTool(server, "progress", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			for i := range 3 {
				if err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i)}); err != nil {
					return nil, err
				}
			}
			return text("done"), nil
		})
		addTool(server, "wait", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			waiting <- struct{}{}
			<-ctx.Done()
			cancelled <- struct{}{}
			return nil, ctx.Err()
		})
		addTool(server, "large", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text(strings.Repeat("x", 5<<20)), nil
		})
		return server
	})
	for _, revision := range []string{"2025-03-26", "2025-06-18", legacy, modern} {
		t.Run(revision, func(t *testing.T) {
			progress := make(chan float64, 10)
			c := h.relay()
			session := c.connect(t, revision, &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress <- r.Params.Progress },
			})
			if got, err := call(t.Context(), session, "progress"); err != nil || got != "done" {
				t.Errorf("progress: %q, %v", got, err)
			}
			for i := range 3 {
				if got := <-progress; got != float64(i) {
					t.Errorf("progress %v, want %d", got, i)
				}
			}
			if got, err := call(t.Context(), session, "large"); err != nil || len(got) != 5<<20 {
				t.Errorf("large: %d bytes, %v", len(got), err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-waiting
				cancel()
			}()
			if _, err := call(ctx, session, "wait"); !errors.Is(err, context.Canceled) {
				t.Errorf("a call that is cancelled: %v", err)
			}
			<-cancelled
			if _, err := call(t.Context(), session, "progress"); err != nil {
				t.Errorf("after a cancelled call: %v", err)
			}
			_ = session.Close()
			if err := <-c.ended; err != nil {
				t.Errorf("at the end of its input: %v", err)
			}
		})
	}
}

func TestServerAsksTheClient(t *testing.T) {
	h := newHost(t, func() *mcp.Server {
		server := mcp.NewServer(&mcp.Implementation{Name: "server"}, nil)
		addTool(server, "ask", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			answer, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "name?"})
			if err != nil {
				return nil, err
			}
			return text(answer.Action), nil
		})
		return server
	})
	session := h.relay().connect(t, legacy, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "decline"}, nil
		},
	})
	if got, err := call(t.Context(), session, "ask"); err != nil || got != "decline" {
		t.Errorf("got %q, %v", got, err)
	}
}

// The session outlives its host, with what the client has told it, and the
// client hears that lists may be others.
func TestSessionIsOpenedAgainWhenTheHostIs(t *testing.T) {
	var hosts atomic.Int32
	subscribed := make(chan string, 10)
	h := newHost(t, func() *mcp.Server {
		n := hosts.Add(1)
		server := mcp.NewServer(&mcp.Implementation{Name: "server"}, &mcp.ServerOptions{
			SubscribeHandler: func(_ context.Context, r *mcp.SubscribeRequest) error {
				subscribed <- r.Params.URI
				return nil
			},
			UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		})
		server.AddResource(&mcp.Resource{URI: "a:b", Name: "b"}, nil)
		addTool(server, "which", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text(fmt.Sprint(n)), nil
		})
		return server
	})
	changed := make(chan struct{}, 10)
	session := h.relay().connect(t, legacy, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
	})
	if err := session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "a:b"}); err != nil {
		t.Fatal(err)
	}
	<-subscribed
	for restart := range 3 {
		h.end()
		answer := make(chan string, 1)
		go func() {
			got, err := call(context.Background(), session, "which")
			if err != nil {
				got = err.Error()
			}
			answer <- got
		}()
		h.start()
		if got, want := <-answer, fmt.Sprint(restart+2); got != want {
			t.Errorf("after %d restarts the answer is %q, want %q", restart+1, got, want)
		}
		<-changed
		if got := <-subscribed; got != "a:b" {
			t.Errorf("subscribed again is %q", got)
		}
	}
}

// Who listens without a session goes on to, and hears that all may be other.
func TestListeningOutlivesTheHost(t *testing.T) {
	servers := make(chan *mcp.Server, 10)
	h := newHost(t, func() *mcp.Server {
		server := mcp.NewServer(&mcp.Implementation{Name: "server"}, &mcp.ServerOptions{
			SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
			UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		})
		addTool(server, "one", nil)
		server.AddResource(&mcp.Resource{URI: "a:b", Name: "b"}, nil)
		servers <- server
		return server
	})
	<-servers
	c := h.raw()
	c.say(`{"jsonrpc":"2.0","id":"x","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:b"]},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`)
	hear := func(want string) {
		t.Helper()
		if got := c.hear(); !strings.Contains(got, want) || !strings.Contains(got, `"io.modelcontextprotocol/subscriptionId":"x"`) {
			t.Errorf("the client hears %s, want %s", got, want)
		}
	}
	hear("acknowledged")
	for range 2 {
		h.end()
		h.start()
		hear("tools/list_changed")
		hear(`"uri":"a:b"`)
		addTool(<-servers, "more", nil)
		hear("tools/list_changed")
	}
}

func TestCallInFlightFailsWithItsHostAndIsNotRepeated(t *testing.T) {
	for _, revision := range []string{legacy, modern} {
		t.Run(revision, func(t *testing.T) {
			began := make(chan struct{}, 10)
			h := newHost(t, func() *mcp.Server {
				server := mcp.NewServer(&mcp.Implementation{Name: "server"}, nil)
				addTool(server, "wait", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					began <- struct{}{}
					<-ctx.Done()
					return nil, ctx.Err()
				})
				addTool(server, "ping", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("pong"), nil })
				return server
			})
			session := h.relay().connect(t, revision, nil)
			failed := make(chan error, 1)
			go func() {
				_, err := call(context.Background(), session, "wait")
				failed <- err
			}()
			<-began
			h.end()
			if err := <-failed; err == nil || !strings.Contains(err.Error(), "not repeated") {
				t.Errorf("the call in flight: %v", err)
			}
			h.start()
			if got, err := call(t.Context(), session, "ping"); err != nil || got != "pong" {
				t.Errorf("afterwards: %q, %v", got, err)
			}
			if len(began) > 0 {
				t.Error("the call was made again")
			}
		})
	}
}

// A client that does nothing for long keeps its session: it is there.
func TestIdleClientKeepsItsSession(t *testing.T) {
	pings := make(chan struct{}, 100)
	h := newForgetfulHost(t, 4*time.Second, func() *mcp.Server {
		server := mcp.NewServer(&mcp.Implementation{Name: "server"}, nil)
		server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
				if method == "ping" {
					pings <- struct{}{}
				}
				return next(ctx, method, r)
			}
		})
		addTool(server, "session", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text(r.Session.ID()), nil
		})
		return server
	})
	session := h.relay().connect(t, legacy, nil)
	before, err := call(t.Context(), session, "session")
	if err != nil {
		t.Fatal(err)
	}
	for range 22 { // a twentieth of the time that is too long, each
		<-pings
	}
	if after, err := call(t.Context(), session, "session"); err != nil || after != before {
		t.Errorf("the session was %q, and is %q, %v", before, after, err)
	}
}

// raw speaks lines.
type raw struct {
	*client
	t     *testing.T
	lines *bufio.Scanner
}

func (h *host) raw() *raw {
	r := &raw{client: h.relay(), t: h.t}
	r.lines = bufio.NewScanner(r.out)
	r.lines.Buffer(nil, 16<<20)
	return r
}

func (r *raw) say(line string) {
	r.t.Helper()
	if _, err := io.WriteString(r.in, line+"\n"); err != nil {
		r.t.Fatal(err)
	}
}

func (r *raw) hear() string {
	r.t.Helper()
	if !r.lines.Scan() {
		r.t.Fatalf("no more is said: %v", r.lines.Err())
	}
	if !json.Valid(r.lines.Bytes()) {
		r.t.Errorf("what is said is no JSON: %s", r.lines.Text())
	}
	return r.lines.Text()
}

func TestBytesStayAsTheyAre(t *testing.T) {
	asked := make(chan string, 10)
	h := newHost(t, func() *mcp.Server { return mcp.NewServer(&mcp.Implementation{Name: "server"}, nil) })
	h.web.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked <- string(body) + r.Header.Get("Mcp-Method") + r.Header.Get("Mcp-Name") + r.Header.Get("Mcp-Protocol-Version")
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{\"jsonrpc\":\"2.0\",\n \"id\":9007199254740993,\"result\":{\"é\":1.50,\"extra\":\"\\u00e9\"}}")
	})
	c := h.raw()
	const message = `{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","extra":[1.50],"params":{"name":"a\u0062","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	c.say(message)
	if got, want := <-asked, message+"tools/callab2026-07-28"; got != want {
		t.Errorf("passed on is\n%s, want\n%s", got, want)
	}
	if got, want := c.hear(), `{"jsonrpc":"2.0",  "id":9007199254740993,"result":{"é":1.50,"extra":"\u00e9"}}`; got != want {
		t.Errorf("passed back is\n%s, want\n%s", got, want)
	}
}

// What a tool wants to have in headers is put there for a client that cannot.
func TestArgumentsAreRepeatedInHeaders(t *testing.T) {
	h := newHost(t, func() *mcp.Server {
		server := mcp.NewServer(&mcp.Implementation{Name: "server"}, nil)
		server.AddTool(&mcp.Tool{Name: "of", InputSchema: map[string]any{
			"type": "object", "properties": map[string]any{
				"city":  map[string]any{"type": "string", "x-mcp-header": "City"},
				"count": map[string]any{"type": "integer", "x-mcp-header": "Count"},
			},
		}}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text(r.Extra.Header.Get("Mcp-Param-City") + " " + r.Extra.Header.Get("Mcp-Param-Count")), nil
		})
		return server
	})
	session := h.relay().connect(t, modern, nil)
	if _, err := session.ListTools(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		arguments map[string]any
		want      string
	}{
		{map[string]any{"city": "Rome", "count": 3}, "Rome 3"},
		{map[string]any{"city": "Zürich", "count": nil}, "=?base64?WsO8cmljaA==?= "},
		{map[string]any{}, " "},
	} {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "of", Arguments: test.arguments})
		if err != nil {
			t.Fatalf("%v: %v", test.arguments, err)
		}
		if got := result.Content[0].(*mcp.TextContent).Text; got != test.want {
			t.Errorf("%v: the headers are %q, want %q", test.arguments, got, test.want)
		}
	}
}

func TestJunkIsAnsweredAndNothingIsLostByIt(t *testing.T) {
	h := newHost(t, func() *mcp.Server { return mcp.NewServer(&mcp.Implementation{Name: "server"}, nil) })
	c := h.raw()
	for junk, code := range map[string]string{"no JSON": "-32700", `{"jsonrpc":"2.0"}`: "-32600", `[]`: "-326", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`: "-32600"} {
		c.say(junk)
		if got := c.hear(); !strings.Contains(got, `"id":null`) || !strings.Contains(got, code) {
			t.Errorf("%s is answered by %s", junk, got)
		}
	}
	c.say("")
	c.say(`{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	if got := c.hear(); !strings.Contains(got, `"id":"a"`) || !strings.Contains(got, "2025-11-25") {
		t.Errorf("initialize is answered by %s", got)
	}
	c.say(`{"jsonrpc":"2.0","id":"b","method":"nope"}`)
	if got := c.hear(); !strings.Contains(got, `"id":"b"`) || !strings.Contains(got, `"error"`) {
		t.Errorf("a method that is not there is answered by %s", got)
	}
}

// What was asked before the end of the input is still answered.
func TestEndOfInputLetsCallsFinish(t *testing.T) {
	began, finish := make(chan struct{}), make(chan struct{})
	h := newHost(t, func() *mcp.Server {
		server := mcp.NewServer(&mcp.Implementation{Name: "server"}, nil)
		addTool(server, "slow", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			close(began)
			<-finish
			return text("at last"), nil
		})
		return server
	})
	c := h.raw()
	c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`)
	<-began
	_ = c.in.Close()
	close(finish)
	if got := c.hear(); !strings.Contains(got, "at last") {
		t.Errorf("the answer is %s", got)
	}
	if err := <-c.ended; err != nil {
		t.Error(err)
	}
}

// Who listens waits for no answer: clients that close their server's input give it
// a second or two to end.
func TestEndOfInputEndsListening(t *testing.T) {
	for _, revision := range []string{legacy, modern} {
		h := newHost(t, func() *mcp.Server {
			server := mcp.NewServer(&mcp.Implementation{Name: "server"}, nil)
			addTool(server, "one", nil)
			return server
		})
		h.lastWords = time.Hour
		c := h.relay()
		c.connect(t, revision, &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {}})
		_ = c.in.Close()
		select {
		case err := <-c.ended:
			if err != nil {
				t.Errorf("%s: %v", revision, err)
			}
		case <-time.After(30 * time.Second):
			t.Errorf("%s: it goes on", revision)
		}
	}
}

// The answer to a call that was cancelled may never come.
func TestCancelledCallIsNotWaitedFor(t *testing.T) {
	h := newHost(t, func() *mcp.Server { return mcp.NewServer(&mcp.Implementation{Name: "server"}, nil) })
	next, began := h.web.Handler, make(chan struct{})
	h.web.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), "tools/call") {
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			next.ServeHTTP(w, r)
			return
		}
		close(began)
		<-r.Context().Done()
	})
	h.lastWords = time.Hour
	c := h.raw()
	c.say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	c.hear()
	c.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	c.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t"}}`)
	<-began
	c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	c.say(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	if got := c.hear(); !strings.Contains(got, `"id":3`) {
		t.Errorf("after a cancelled call comes %s", got)
	}
	_ = c.in.Close()
	c.end()
}

// A client that has stopped to read may still close the input, or end us.
func TestClientThatDoesNotReadHoldsUpNoEnd(t *testing.T) {
	h := newHost(t, func() *mcp.Server { return mcp.NewServer(&mcp.Implementation{Name: "server"}, nil) })
	h.lastWords = time.Millisecond
	c := h.raw()
	c.say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	c.hear()
	c.say(`{"jsonrpc":"2.0","id":2,"method":"ping"}`) // whose answer is not read
	_ = c.in.Close()
	c.end()
}

// end waits for the end of the relay.
func (r *raw) end() {
	r.t.Helper()
	select {
	case err := <-r.ended:
		if err != nil {
			r.t.Error(err)
		}
	case <-time.After(30 * time.Second):
		r.t.Error("it goes on")
	}
}

func TestClientThatLeavesIsNoFailure(t *testing.T) {
	h := newHost(t, func() *mcp.Server { return mcp.NewServer(&mcp.Implementation{Name: "server"}, nil) })
	c := h.raw()
	_ = c.out.Close()
	c.say("what is answered")
	if err := <-c.ended; err != nil {
		t.Error(err)
	}
}

func TestWithoutAHostCallsSaySo(t *testing.T) {
	h := newHost(t, func() *mcp.Server { return mcp.NewServer(&mcp.Implementation{Name: "server"}, nil) })
	h.end()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var out strings.Builder
	relay := &Relay{
		Endpoint: "http://host/mcp",
		HTTP: &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Err: errors.New("nobody is there")}
		}}},
		Await: func(context.Context) error { return errors.New("no host is running: start one") },
		Warn:  t.Logf,
	}
	err := relay.Run(ctx, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize"}`+"\n"+`{"jsonrpc":"2.0","id":2,"method":"ping"}`), &out)
	if err != nil || strings.Count(out.String(), "no host is running: start one") != 2 {
		t.Errorf("%v: %s", err, out.String())
	}
}
