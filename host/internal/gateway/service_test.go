package gateway

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The tests in this file are of faults that users of other gateways reported.

// listener is a client that only listens, with a session or, without one, in the
// course of a request.
type listener struct {
	name   string
	events *bufio.Scanner
}

// listen returns when the client is heard by the plugin.
func (f *front) listen(version string) listener {
	f.t.Helper()
	begun, response := ":", (*http.Response)(nil)
	if version == modern {
		begun = "acknowledged"
		response = f.alone().send(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"promptsListChanged":true},`+rawMeta+`}}`,
			map[string]string{"Mcp-Method": "subscriptions/listen"})
	} else {
		response = f.open(nil).send(http.MethodGet, "", nil)
	}
	f.t.Cleanup(func() { _ = response.Body.Close() })
	l := listener{version, bufio.NewScanner(response.Body)}
	for l.events.Scan() {
		if strings.Contains(l.events.Text(), begun) {
			return l
		}
	}
	f.t.Fatalf("%s: the stream ends: %v", version, l.events.Err())
	return l
}

// next is the list of which the next notification tells.
func (l listener) next() string {
	for l.events.Scan() {
		if _, method, ok := strings.Cut(l.events.Text(), `"method":"notifications/`); ok {
			list, _, _ := strings.Cut(method, "/")
			return list
		}
	}
	return "the end"
}

// A change of a list is told to each client once: not lost, and not repeated,
// which what is told next would show.
func TestEachClientIsToldOnceOfAChange(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	server := newServer("one")
	addPrompt(server, "one")
	f.ready("a", newPlugin(t, server))
	var clients []listener
	for _, version := range []string{legacy, legacy, modern, modern} {
		clients = append(clients, f.listen(version))
	}
	for i := range 3 {
		addTool(server, fmt.Sprint("more", i), nil)
		for _, l := range clients {
			if got := l.next(); got != "tools" {
				t.Errorf("%s: told of %s, want of the tools", l.name, got)
			}
		}
		addPrompt(server, fmt.Sprint("more", i))
		for _, l := range clients {
			if got := l.next(); got != "prompts" {
				t.Errorf("%s: told of %s, want of the prompts", l.name, got)
			}
		}
	}
}

// Calls of several clients have the same id, and one of them is cancelled.
func TestCancellationHitsNoOtherCall(t *testing.T) {
	for path, prefix := range map[string]string{"/mcp": "a__", "/mcp/a": ""} {
		t.Run(path, func(t *testing.T) { checkCancellation(t, path, prefix) })
	}
}

func checkCancellation(t *testing.T, path, prefix string) {
	t.Helper()
	f := newFront(t, mcpConfig("a"))
	server := newServer("one")
	started, canceled, finish := make(chan struct{}, 3), make(chan struct{}, 3), make(chan struct{})
	addTool(server, "slow", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		started <- struct{}{}
		select {
		case <-ctx.Done():
			canceled <- struct{}{}
			return nil, ctx.Err()
		case <-finish:
			return text("finished"), nil
		}
	})
	f.ready("a", newPlugin(t, server))
	answers := make(chan rawAnswer, 2)
	clients := []*rawClient{f.openAt(path, nil), f.openAt(path, nil), f.openAt(path, nil)}
	slow := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + prefix + `slow"}}`
	for _, c := range clients[:2] {
		go func() { answers <- c.post(slow) }()
		<-started
	}
	ctx, leave := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, clients[2].url, strings.NewReader(slow))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range clients[2].header {
		request.Header.Set(name, value)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	var left sync.WaitGroup
	left.Go(func() {
		if response, err := http.DefaultClient.Do(request); err == nil {
			_ = response.Body.Close()
		}
	})
	defer left.Wait()
	defer leave()
	<-started
	// An id that is none of its own, and then the own one.
	for _, id := range []string{`8`, `1`, `"7"`, `7`} {
		clients[2].post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
	}
	<-canceled
	close(finish)
	for range clients[:2] {
		if a := <-answers; !strings.Contains(a.body, "finished") {
			t.Errorf("a call of another client: %s", a.body)
		}
	}
	if len(canceled) > 0 {
		t.Error("more calls than one were cancelled")
	}
}

// Progress that comes after the answer is of nothing that the client knows, and
// some break by it.
func TestProgressAfterTheAnswerIsDropped(t *testing.T) {
	for _, version := range versions {
		for path, prefix := range map[string]string{"/mcp": "a__", "/mcp/a": ""} {
			t.Run(version+path, func(t *testing.T) { checkLateProgress(t, version, path, prefix) })
		}
	}
}

func checkLateProgress(t *testing.T, version, path, prefix string) {
	t.Helper()
	f := newFront(t, mcpConfig("a"))
	server := newServer()
	var late func() error
	addTool(server, "early", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		say := func(ctx context.Context, message string) error {
			return req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Message: message})
		}
		late = func() error { return say(context.WithoutCancel(ctx), "late") }
		return text("done"), say(ctx, "early")
	})
	addTool(server, "late", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		_ = late() // it may be refused
		return text("done"), req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Message: "own"})
	})
	f.ready("a", newPlugin(t, server))
	heard := make(chan string, 10)
	session := f.connect(path, version, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { heard <- r.Params.Message },
	})
	for _, tool := range []string{"early", "late"} {
		params := &mcp.CallToolParams{Name: prefix + tool}
		params.SetProgressToken(tool)
		if _, err := session.CallTool(t.Context(), params); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"early", "own"} {
		if got := <-heard; got != want {
			t.Errorf("the progress is %q, want %q", got, want)
		}
	}
}

// A list has several pages, of which some tools are hidden.
func TestToolsOfAllPagesAreSeen(t *testing.T) {
	const tools = 2500
	service := mcpConfig("a")
	service.Tools.Deny = []string{"*5"}
	f := newFront(t, service)
	server := newServer()
	for i := range tools {
		addTool(server, fmt.Sprint("tool", i), nil)
	}
	f.ready("a", newPlugin(t, server))
	for _, version := range versions {
		if n := len(toolNames(t, f.connect("/mcp/a", version, nil))); n != tools*9/10 {
			t.Errorf("%s: %d tools are seen, want %d", version, n, tools*9/10)
		}
	}
}
