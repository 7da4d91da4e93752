package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/supervise"
	"github.com/plughost/plughost/shared/mcphttp"
)

// code is the status of a request to a path.
func (f *front) code(path string) int {
	f.t.Helper()
	response, err := http.Post(f.url+path, "application/json", strings.NewReader("{}"))
	if err != nil {
		f.t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}

func TestServicesComeAndGo(t *testing.T) {
	noGoroutineStays(t)
	f := newFront(t, mcpConfig("a"))
	f.ready("a", newPlugin(t, newServer("one")))
	var changes atomic.Int32
	joined := f.connect("/mcp", legacy, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changes.Add(1) },
	})
	told := func(what string) {
		t.Helper()
		eventually(t, "clients are told that "+what, func() bool { return changes.Swap(0) > 0 })
	}

	f.Configure([]config.Service{mcpConfig("a"), mcpConfig("b"), agentConfig("echo", "b/*")})
	if got := f.code("/mcp/b"); got == http.StatusNotFound {
		t.Error("the new service has no endpoint")
	}
	f.ready("b", newPlugin(t, newServer("two")))
	told("tools came")
	expect(t, "joined", toolNames(t, joined), []string{"a__one", "b__two"})
	agent := newFakeAgent(t, card(), &echoAgent{})
	f.readyAgent("echo", agent)
	granted := <-agent.tools
	expect(t, "the new agent's", toolNames(t, granted), []string{"b__two"})

	// What goes is there until nothing of it is left.
	own := []*mcp.ClientSession{f.connect("/mcp/a", legacy, nil), f.connect("/mcp/a", modern, nil)}
	f.Configure([]config.Service{mcpConfig("b"), agentConfig("echo", "b/*")})
	if got, err := call(t.Context(), own[0], "one"); got != "one" || err != nil {
		t.Errorf("a call of what is about to go: %q, %v", got, err)
	}
	f.enter("a", supervise.Stopped, "")
	f.change(config.KindMCP, "a", supervise.Status{State: supervise.Removed}, nil)
	told("tools went")
	expect(t, "joined", toolNames(t, joined), []string{"b__two"})
	for _, session := range own {
		if _, err := call(t.Context(), session, "one"); err == nil {
			t.Error("what is gone was called")
		}
	}
	if got := f.code("/mcp/a"); got != http.StatusNotFound {
		t.Errorf("the endpoint of what is gone answers %d", got)
	}
	expect(t, "the agent's", toolNames(t, granted), []string{"b__two"})

	f.enterAgent("echo", supervise.Stopped, "")
	f.change(config.KindAgent, "echo", supervise.Status{State: supervise.Removed}, nil)
	if got := f.code("/a2a/echo"); got != http.StatusNotFound {
		t.Errorf("the endpoint of the agent that is gone answers %d", got)
	}
	// The names are free for others.
	f.Configure([]config.Service{mcpConfig("b"), mcpConfig("a"), mcpConfig("echo")})
	f.ready("a", newPlugin(t, newServer("another")))
	expect(t, "joined", toolNames(t, joined), []string{"a__another", "b__two"})
}

func TestListenersOfWhatIsGoneAreSentAway(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			f := newFront(t, mcpConfig("a"))
			f.ready("a", newPlugin(t, newServer("one")))
			ended := make(chan struct{})
			handler := f.Handler()
			var listening atomic.Int32
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !mcphttp.OnlyListens(r) {
					handler.ServeHTTP(w, r)
					return
				}
				listening.Add(1)
				handler.ServeHTTP(w, r)
				close(ended)
			}))
			t.Cleanup(web.Close)
			f.url = web.URL
			f.connect("/mcp/a", version, &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {}})
			eventually(t, "the client listens", func() bool { return listening.Load() == 1 })
			f.enter("a", supervise.Stopped, "")
			f.change(config.KindMCP, "a", supervise.Status{State: supervise.Removed}, nil)
			select {
			case <-ended:
			case <-time.After(20 * time.Second):
				t.Error("the request goes on")
			}
		})
	}
}

func TestToolsThatAreOfferedAndGrantedFollowTheConfiguration(t *testing.T) {
	tools := func(s config.Service, allow ...string) config.Service {
		s.Tools.Allow = allow
		return s
	}
	f := newFront(t, mcpConfig("a"), agentConfig("echo", "a/*"))
	f.ready("a", newPlugin(t, newServer("one", "two")))
	agent := newFakeAgent(t, card(), &echoAgent{})
	f.readyAgent("echo", agent)
	granted, joined := <-agent.tools, f.connect("/mcp", legacy, nil)
	for _, test := range []struct {
		a, echo             []string
		joined, agent, none []string
	}{
		{[]string{"*"}, []string{"a/one"}, []string{"a__one", "a__two"}, []string{"a__one"}, []string{"a__two"}},
		{[]string{"two"}, []string{"a/*"}, []string{"a__two"}, []string{"a__two"}, []string{"a__one"}},
		{[]string{"two"}, nil, []string{"a__two"}, nil, []string{"a__one", "a__two"}},
		{[]string{"*"}, []string{"*/*"}, []string{"a__one", "a__two"}, []string{"a__one", "a__two"}, nil},
	} {
		f.Configure([]config.Service{tools(mcpConfig("a"), test.a...), tools(agentConfig("echo"), test.echo...)})
		// It holds at once, not only when clients look again.
		for _, tool := range test.none {
			if _, err := call(t.Context(), granted, tool); err == nil {
				t.Errorf("%v: the agent called %s", test, tool)
			}
		}
		expect(t, "joined", toolNames(t, joined), test.joined)
		expect(t, "the agent's", toolNames(t, granted), test.agent)
	}
}

// TestOrderOfTheConfigurationDecidesAlsoWhenItChanges has two services with the
// same resource.
func TestOrderOfTheConfigurationDecidesAlsoWhenItChanges(t *testing.T) {
	f := newFront(t, mcpConfig("a"), mcpConfig("b"))
	for _, name := range []string{"a", "b"} {
		server := newServer()
		server.AddResource(&mcp.Resource{URI: "test://same", Name: "same"}, read(name))
		f.ready(name, newPlugin(t, server))
	}
	session := f.connect("/mcp", legacy, nil)
	for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		var services []config.Service
		for _, name := range order {
			services = append(services, mcpConfig(name))
		}
		f.Configure(services)
		result, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://same"})
		if err != nil || !slices.Equal([]string{result.Contents[0].Text}, []string{order[0] + " test://same"}) {
			t.Errorf("with %v the resource is %v, %v", order, result, err)
		}
	}
}

// TestConfigureWhileServicesComeAndGo is for the race detector, and that what
// was said last holds.
func TestConfigureWhileServicesComeAndGo(t *testing.T) {
	f := newFront(t, mcpConfig("a"), agentConfig("echo", "a/*"))
	server := newServer("one")
	f.ready("a", newPlugin(t, server))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 50 {
			addTool(server, "extra", nil)
			server.RemoveTools("extra")
			f.code("/mcp/a")
		}
	}()
	for i := range 50 {
		services := []config.Service{mcpConfig("a"), agentConfig("echo", "a/*")}
		if i%2 == 0 {
			services[0].Tools.Allow = nil
			services = append(services, agentConfig("new", "a/*"))
		}
		f.Configure(services)
		f.change(config.KindAgent, "new", supervise.Status{State: supervise.Removed}, nil)
	}
	<-done
	session := f.connect("/mcp", legacy, nil)
	eventually(t, "what was said last holds", func() bool {
		return slices.Equal(toolNames(t, session), []string{"a__one"})
	})
}
