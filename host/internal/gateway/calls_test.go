package gateway

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/host/internal/supervise"
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
	var observer told
	f := newFront(t, mcpConfig("a"))
	f.ObserveCalls(&observer)
	server := newServer("one")
	waiting := make(chan struct{})
	addTool(server, "fail", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "no"}}}, nil
	})
	addTool(server, "wait", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		close(waiting)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	f.ready("a", newPlugin(t, server))
	session := f.connect("/mcp", legacy, nil)
	for _, tool := range []string{"a__one", "a__fail", "a__made_up"} {
		_, _ = call(t.Context(), session, tool)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-waiting
		cancel()
	}()
	_, _ = call(ctx, session, "a__wait")
	eventually(t, "the cancelled call is told of", func() bool { return len(observer.all()) == 3 })
	f.enter("a", supervise.Stopping, "a stop was asked")
	_, _ = call(t.Context(), session, "a__one")
	// Of a tool that is not there nothing is told: anybody can make up names.
	expect(t, "the calls", observer.all(), []string{"a/one ok", "a/fail tool_error", "a/wait cancelled", "a/one error"})
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
	got := make(chan mcp.Meta, 1)
	addTool(server, "meta", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		got <- r.Params.Meta
		return text(""), nil
	})
	f.ready("a", newPlugin(t, server))
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, version := range versions {
		client := mcp.NewClient(&mcp.Implementation{Name: "client"}, nil)
		session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
			Endpoint:   f.url + "/mcp",
			HTTPClient: &http.Client{Transport: headers{"X-Request-Id": "r-1", "Traceparent": parent, "Tracestate": "a=b", "Authorization": "Bearer canary"}},
		}, &mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		for _, given := range []mcp.Meta{nil, {"tracestate": "c=d"}} {
			if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "a__meta", Meta: given}); err != nil {
				t.Fatal(err)
			}
			meta, state := <-got, "a=b"
			if given != nil {
				state = "c=d"
			}
			if meta[MetaRequestID] != "r-1" || meta["traceparent"] != parent || meta["tracestate"] != state || len(meta) != 3 {
				t.Errorf("%s: the plugin learns %v", version, meta)
			}
		}
		_ = session.Close()
	}
}
