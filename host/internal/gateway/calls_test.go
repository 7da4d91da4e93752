package gateway

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/host/internal/config"
)

// told remembers what it is told of calls.
type told struct {
	mu    sync.Mutex
	calls []string
}

func (o *told) Called(service, tool, outcome string, took time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if took <= 0 {
		outcome += " in no time"
	}
	o.calls = append(o.calls, service+"/"+tool+" "+outcome)
}

func (o *told) all() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.calls...)
}

func TestCallsAreToldOf(t *testing.T) {
	for _, endpoint := range []struct{ path, prefix string }{{"/mcp", "a__"}, {"/mcp/a", ""}} {
		for _, version := range []string{legacy, modern} {
			t.Run(endpoint.path+" "+version, func(t *testing.T) {
				var observer told
				f := newFront(t, mcpConfig("a"))
				f.ObserveCalls(&observer)
				server := newServer("one")
				addTool(server, "fail", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "no"}}}, nil
				})
				began, died := make(chan struct{}), make(chan struct{})
				addTool(server, "die", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					close(began)
					<-died
					return text("too late"), nil
				})
				plugin := newPlugin(t, server)
				f.ready("a", plugin)
				session := f.connect(endpoint.path, version, nil)
				for _, tool := range []string{"one", "fail", "made_up"} {
					_, _ = call(t.Context(), session, endpoint.prefix+tool)
				}
				go func() {
					<-began
					plugin.die()
					close(died)
				}()
				_, _ = call(t.Context(), session, endpoint.prefix+"die")
				// Of a tool that is not there nothing is told: anybody can make up names.
				want := []string{"a/one ok", "a/fail tool_error", "a/die error"}
				eventually(t, "all calls are told of", func() bool { return len(observer.all()) == len(want) })
				expect(t, "the calls", observer.all(), want)
			})
		}
	}
}

func TestCancelledCallsAreToldOf(t *testing.T) {
	for _, endpoint := range []struct{ path, tool, version string }{{"/mcp", "a__wait", legacy}, {"/mcp/a", "wait", modern}} {
		var observer told
		f := newFront(t, mcpConfig("a"))
		f.ObserveCalls(&observer)
		server, waiting := newServer(), make(chan struct{})
		addTool(server, "wait", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			close(waiting)
			<-ctx.Done()
			return nil, ctx.Err()
		})
		f.ready("a", newPlugin(t, server))
		session := f.connect(endpoint.path, endpoint.version, nil)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-waiting
			cancel()
		}()
		_, _ = call(ctx, session, endpoint.tool)
		eventually(t, "the cancelled call is told of", func() bool { return len(observer.all()) == 1 })
		expect(t, "the calls at "+endpoint.path, observer.all(), []string{"a/wait cancelled"})
	}
}

// A session that nobody uses ends, also one on which a client listens, and gives
// its place to another.
func TestSessionsOfTheJoinedEndpointAreBounded(t *testing.T) {
	f := newLimitedFront(t, config.GatewayLimits{Sessions: 2, SessionIdle: time.Hour}, mcpConfig("a"))
	f.ready("a", newPlugin(t, newServer("one")))
	first := f.connect("/mcp", legacy, nil)
	f.connect("/mcp", legacy, nil)
	if got := f.Sessions(); got[""] != 2 || got["a"] != 0 {
		t.Errorf("the sessions are %v", got)
	}
	if err := f.tryToConnect("/mcp"); err == nil {
		t.Error("there is a third session")
	}
	_ = first.Close()
	if err := f.tryToConnect("/mcp"); err != nil {
		t.Errorf("there is no room for another: %v", err)
	}
}

// A client that does nothing loses its session, also if it listens.
func TestIdleSessionsOfTheJoinedEndpointEnd(t *testing.T) {
	t.Parallel()
	f := newLimitedFront(t, config.GatewayLimits{Sessions: 1, SessionIdle: 3 * time.Second}, mcpConfig("a")) // enough to open one
	f.ready("a", newPlugin(t, newServer("one")))
	frozen := f.connect("/mcp", legacy, &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {}})
	eventually(t, "the session has ended", func() bool { return f.Sessions()[""] == 0 })
	if err := f.tryToConnect("/mcp"); err != nil {
		t.Errorf("there is no room for another: %v", err)
	}
	if _, err := call(t.Context(), frozen, "a__one"); err == nil {
		t.Error("a session that was idle for too long goes on")
	}
}

// tryToConnect opens a session, and ends it if there is one.
func (f *front) tryToConnect(path string) error {
	session, err := mcp.NewClient(&mcp.Implementation{Name: "client"}, nil).Connect(f.t.Context(),
		&mcp.StreamableClientTransport{Endpoint: f.url + path, DisableStandaloneSSE: true},
		&mcp.ClientSessionOptions{ProtocolVersion: legacy})
	if err == nil {
		_ = session.Close()
	}
	return err
}

// headers are sent with each request.
type headers map[string]string

func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range h {
		r.Header.Set(name, value)
	}
	return http.DefaultTransport.RoundTrip(r)
}

func TestPluginLearnsOfTheRequestAndItsTrace(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	server := newServer()
	type learnt struct {
		meta   mcp.Meta
		header http.Header
	}
	got := make(chan learnt, 1)
	addTool(server, "meta", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		got <- learnt{r.Params.Meta, r.Extra.Header}
		return text(""), nil
	})
	f.ready("a", newPlugin(t, server))
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, endpoint := range []struct{ path, tool string }{{"/mcp", "a__meta"}, {"/mcp/a", "meta"}} {
		for _, version := range versions {
			client := mcp.NewClient(&mcp.Implementation{Name: "client"}, nil)
			session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
				Endpoint:   f.url + endpoint.path,
				HTTPClient: &http.Client{Transport: headers{"X-Request-Id": "r-1", "Traceparent": parent, "Tracestate": "a=\"b\"", "Authorization": "Bearer canary"}},
			}, &mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			for _, given := range []mcp.Meta{nil, {"tracestate": "c=d"}, {"traceparent": "00-1"}} {
				if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: endpoint.tool, Meta: given}); err != nil {
					t.Fatal(err)
				}
				learnt := <-got
				wantParent, wantState := any(parent), any("a=\"b\"")
				if said, ok := given["tracestate"]; ok {
					wantState = said
				}
				if said, ok := given["traceparent"]; ok {
					wantParent, wantState = said, learnt.meta["tracestate"]
				}
				if learnt.meta["traceparent"] != wantParent || learnt.meta["tracestate"] != wantState {
					t.Errorf("%s %s: the plugin learns of the trace %v", endpoint.path, version, learnt.meta)
				}
				if id := learnt.header.Get("X-Request-Id"); id != "r-1" {
					t.Errorf("%s %s: the plugin learns of the request %q", endpoint.path, version, id)
				}
				if len(learnt.header["Authorization"]) > 0 {
					t.Error("the plugin gets the caller's token")
				}
			}
			_ = session.Close()
		}
	}
}
