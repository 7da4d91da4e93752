package gateway

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/host/internal/caller"
	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/shared/mcphttp"
)

func TestEndpoints(t *testing.T) {
	f := newFront(t, mcpConfig("a"), agentConfig("echo"))
	tests := []struct {
		name, method, path string
		want               int
		say                string
	}{
		{"the host lives", "GET", "/healthz", 200, "ok"},
		{"the services are ready", "GET", "/readyz", 200, "ok"},
		{"an unknown service", "POST", "/mcp/nope", 404, `there is no MCP service "nope"`},
		{"an unknown agent", "POST", "/a2a/nope", 404, `there is no agent "nope"`},
		{"an unknown agent's card", "GET", "/a2a/nope/.well-known/agent-card.json", 404, `there is no agent "nope"`},
		{"an agent is no MCP service", "POST", "/mcp/echo", 404, "no MCP service"},
		{"nothing is at the root", "GET", "/", 404, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), test.method, f.url+test.path, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, _ := io.ReadAll(response.Body)
			if response.StatusCode != test.want || !strings.Contains(string(body), test.say) {
				t.Errorf("status %d, want %d; body %q", response.StatusCode, test.want, body)
			}
		})
	}
}

func TestMetrics(t *testing.T) {
	g, err := New(nil, config.GatewayLimits{}, func() bool { return true }, "test", hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	g.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "some_metric 1\n") })
	tests := []struct {
		name, method string
		caller       caller.Caller
		want         int
	}{
		{"anybody, without tokens", "GET", caller.Caller{}, 200},
		{"another method", "POST", caller.Caller{}, 405},
		{"a token for them", "GET", caller.New("a", config.Access{Metrics: true}), 200},
		{"a token for all else", "GET", caller.New("a", config.Access{Agents: []string{"*"}, Tools: config.Tools{Allow: []string{"*/*"}}}), 403},
	}
	for _, test := range tests {
		w, r := httptest.NewRecorder(), httptest.NewRequest(test.method, "/metrics", nil)
		g.Handler().ServeHTTP(w, r.WithContext(caller.NewContext(r.Context(), test.caller)))
		if w.Code != test.want || strings.Contains(w.Body.String(), "some_metric") != (test.want == 200) {
			t.Errorf("%s: status %d, want %d; body %q", test.name, w.Code, test.want, w.Body)
		}
	}
}

func TestReadyzFollowsTheServices(t *testing.T) {
	ready := false
	g, err := New(nil, config.GatewayLimits{}, func() bool { return ready }, "test", hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for _, want := range []int{http.StatusServiceUnavailable, http.StatusOK} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/readyz", nil)
		r.Host = "localhost"
		g.Handler().ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("status %d, want %d", w.Code, want)
		}
		ready = true
	}
}

// After EndListening a server can be shut down in order: no request lasts as
// long as its client likes.
func TestEndListeningEndsWhatOnlyListens(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	started, finish := make(chan struct{}), make(chan struct{})
	server := newServer("one")
	addTool(server, "slow", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		close(started)
		<-finish
		return text("finished"), nil
	})
	f.ready("a", newPlugin(t, server))
	var listening sync.WaitGroup
	web := httptest.NewUnstartedServer(nil)
	handler := f.Handler()
	web.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if mcphttp.OnlyListens(r) {
			listening.Add(1)
			defer listening.Done()
		}
		handler.ServeHTTP(w, r)
	})
	web.Start()
	defer web.Close()
	f.url = web.URL
	opts := &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {}}
	session := f.connect("/mcp/a", legacy, opts)
	f.connect("/mcp", modern, opts)

	result := make(chan string, 1)
	go func() {
		got, err := call(context.Background(), session, "slow")
		if err != nil {
			got = err.Error()
		}
		result <- got
	}()
	<-started
	f.EndListening()
	f.EndListening() // may be called again
	listening.Wait()
	close(finish)
	if got := <-result; got != "finished" {
		t.Errorf("a call in flight: %s", got)
	}
}

func TestCloseLeavesNothingRunning(t *testing.T) {
	noGoroutineStays(t)
	f := newFront(t, mcpConfig("a"), mcpConfig("b"), agentConfig("echo", "a/*"))
	started := make(chan struct{}, 10)
	server := newServer("one")
	addTool(server, "hang", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		started <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	f.ready("a", newPlugin(t, server))
	f.ready("b", newPlugin(t, newServer("x")))
	agent := newFakeAgent(t, card(), &echoAgent{})
	f.readyAgent("echo", agent)
	<-agent.tools

	failed := make(chan error, 10)
	for _, version := range versions {
		for range 2 {
			session := f.connect("/mcp", version, nil)
			go func() {
				_, err := call(context.Background(), session, "a__hang")
				failed <- err
			}()
			<-started
		}
	}
	f.Close()
	for range 2 * len(versions) {
		if err := <-failed; err == nil {
			t.Error("a call that hangs was answered")
		}
	}
	f.Close() // may be called again
	http.DefaultClient.CloseIdleConnections()
}
