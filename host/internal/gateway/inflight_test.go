package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/relay"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// keeper makes a plugin that keeps its calls until they are released. What it is
// told of calls comes on heard.
func keeper(t *testing.T) (plugin *fakeInstance, heard chan string, release func()) {
	t.Helper()
	heard = make(chan string, 1000)
	var mu sync.Mutex
	var answers []func()
	plugin = unruly(t, func(stream frames, m message) string {
		switch m.Method {
		case "tools/call":
			mu.Lock()
			answers = append(answers, func() { send(stream, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, m.ID)) })
			mu.Unlock()
			heard <- m.Method
			return ""
		case "notifications/cancelled":
			heard <- m.Method
			return ""
		}
		return oneTool(m)
	})
	return plugin, heard, func() {
		mu.Lock()
		defer mu.Unlock()
		for _, answer := range answers {
			answer()
		}
		answers = nil
	}
}

func callOf(id int, tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q}}`, id, tool)
}

// leave makes a call and goes when the plugin has it.
func (c *rawClient) leave(call string, heard <-chan string) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, strings.NewReader(call))
	if err != nil {
		c.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range c.header {
		request.Header.Set(name, value)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if response, err := http.DefaultClient.Do(request); err == nil {
			_ = response.Body.Close()
		}
	}()
	<-heard
	cancel()
	<-gone
}

// A plugin need not answer what was cancelled, and some do not. An answer that comes
// late is dropped.
func TestCancelledCallEndsThoughThePluginDoesNotAnswer(t *testing.T) {
	t.Parallel() // it waits for a second
	f := newFront(t, mcpConfig("a"))
	plugin, heard, release := keeper(t)
	f.ready("a", plugin)
	clients := make(map[endpoint]*rawClient)
	for _, at := range endpoints {
		clients[at] = f.openAt(at.path, nil)
	}
	callAll := func(want string) (answered *sync.WaitGroup) {
		answered = &sync.WaitGroup{}
		for at, c := range clients {
			answered.Go(func() {
				if a := c.post(callOf(1, at.prefix+"x")); a.messages[len(a.messages)-1] != want {
					t.Errorf("%s: %s, want %s", at.path, a.body, want)
				}
			})
		}
		for range clients {
			<-heard
		}
		return answered
	}
	first := callAll(`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"the request was cancelled"}}`)
	for at, c := range clients {
		for range 2 { // the plugin hears it once
			c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		}
		if got := <-heard; got != "notifications/cancelled" || len(heard) > 0 {
			t.Errorf("%s: the plugin hears %s, and more: %d", at.path, got, len(heard))
		}
	}
	first.Wait()
	second := callAll(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
	release()
	second.Wait()
}

// Clients may leave without a word; what they left is in the plugin's hands.
func TestCallsThatClientsLeaveAreBounded(t *testing.T) {
	f := newLimitedFront(t, config.GatewayLimits{Requests: 1, SessionIdle: time.Minute}, mcpConfig("a"))
	plugin, heard, release := keeper(t)
	f.ready("a", plugin)
	for _, at := range endpoints {
		c := f.openAt(at.path, nil)
		const resumable = 64
		for id := range 1 + resumable {
			c.leave(callOf(id, at.prefix+"x"), heard)
		}
		a := c.post(callOf(1000, at.prefix+"x"))
		if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, `"id":1000,"error"`) {
			t.Errorf("%s: status %d, %s", at.path, a.status, a.body)
		}
		f.LimitRequests(2)
		c.leave(callOf(1000, at.prefix+"x"), heard)
		if a := c.post(callOf(1001, at.prefix+"x")); a.status != http.StatusTooManyRequests {
			t.Errorf("%s, with another limit: status %d, %s", at.path, a.status, a.body)
		}
		f.LimitRequests(1)
		if a := f.openAt(at.path, nil).post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); !strings.Contains(a.body, `"tools"`) {
			t.Errorf("%s, another session: %s", at.path, a.body)
		}
		release()
		eventually(t, "there is room again", func() bool { return c.post(`{"jsonrpc":"2.0","id":1002,"method":"ping"}`).status == http.StatusOK })
	}
}

// What a plugin takes back when its call is over the client hears elsewhere.
func TestQuestionIsWithdrawnAfterItsCall(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	f.ready("a", unruly(t, func(stream frames, m message) string {
		switch m.Method {
		case "tools/call":
			var number int64
			if err := json.Unmarshal(m.ID, &number); err != nil {
				t.Error(err)
			}
			for _, text := range []string{
				`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`,
				fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}`, number),
				`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}`,
			} {
				_ = stream.Send(&plughostv1.Frame{Request: &number, Message: []byte(text)})
			}
			return ""
		}
		return oneTool(m)
	}))
	for _, at := range endpoints {
		c := f.openAt(at.path, nil)
		listens := c.send(http.MethodGet, "", nil)
		defer listens.Body.Close()
		a := c.post(callOf(1, at.prefix+"x"))
		var asked message
		if err := json.Unmarshal([]byte(a.messages[0]), &asked); err != nil || asked.Method != "elicitation/create" {
			t.Fatalf("%s: %s", at.path, a.body)
		}
		want := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, asked.ID)
		if got := eventsOf(listens.Body)(); got != want {
			t.Errorf("%s: %s, want %s", at.path, got, want)
		}
	}
}

// A client that could not come back to its stream keeps it, though the plugin would
// have it go.
func TestStreamThatAClientCannotComeBackToStaysOpen(t *testing.T) {
	for _, at := range endpoints {
		for _, version := range versions {
			t.Run(at.path+" "+version, func(t *testing.T) {
				f := newFront(t, mcpConfig("a"))
				server, goOn := newServer(), make(chan struct{})
				addTool(server, "later", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: time.Millisecond})
					progress := &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: 1}
					if err := req.Session.NotifyProgress(ctx, progress); err != nil {
						return nil, err
					}
					select {
					case <-goOn:
					case <-ctx.Done(): // the client is gone
					}
					return text("later"), nil
				})
				f.ready("a", newPlugin(t, server))
				session := f.connect(at.path, version, &mcp.ClientOptions{
					ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { close(goOn) },
				})
				params := &mcp.CallToolParams{Name: at.prefix + "later"}
				params.SetProgressToken("p")
				result, err := session.CallTool(t.Context(), params)
				if err != nil || result.Content[0].(*mcp.TextContent).Text != "later" {
					t.Errorf("%v, error %v", result, err)
				}
			})
		}
	}
}

// Who has come back to a call waits for its answer: that is neither to be idle nor to
// listen.
func TestSessionDoesNotEndWhileItsClientWaitsForAnAnswerAgain(t *testing.T) {
	f := newLastingFront(t, 200*time.Millisecond)
	server, goOn := newServer(), make(chan struct{})
	addTool(server, "later", func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: time.Millisecond})
		<-goOn
		return text("later"), nil
	})
	f.ready("a", newPlugin(t, server))
	c := f.open(nil)
	_, id, _ := strings.Cut(c.post(callOf(1, "later")).body, "id: ")
	id, _, _ = strings.Cut(id, "\n")
	again := c.send(http.MethodGet, "", map[string]string{"Last-Event-ID": id})
	defer again.Body.Close()
	f.open(nil)
	eventually(t, "the session that does nothing has ended", func() bool { return f.Sessions()["a"] < 2 })
	f.EndListening() // the host is about to end, and calls go on
	close(goOn)
	if got := eventsOf(again.Body)(); !strings.Contains(got, `"text":"later"`) {
		t.Errorf("%s", got)
	}
}

// A client may know before anybody else that its stream is lost.
func TestClientComesBackToAStreamThatNobodyElseKnowsToBeLost(t *testing.T) {
	f := newFront(t)
	f.common.relay = relay.Options{Quiet: time.Millisecond}
	f.Configure([]config.Service{mcpConfig("a")})
	plugin, heard, release := keeper(t)
	f.ready("a", plugin)
	c := f.open(nil)
	first := c.send(http.MethodPost, callOf(1, "x"), nil)
	defer first.Body.Close()
	streams := []func() string{eventsOf(first.Body)}
	<-heard
	for range 2 {
		again := c.send(http.MethodGet, "", map[string]string{"Last-Event-ID": "call-1"})
		defer again.Body.Close()
		if again.StatusCode != http.StatusOK {
			t.Fatalf("status %d", again.StatusCode)
		}
		streams = append(streams, eventsOf(again.Body))
	}
	release()
	for i, want := range []string{"the end", "the end", `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`} {
		if got := streams[i](); got != want {
			t.Errorf("stream %d: %s, want %s", i, got, want)
		}
	}
}

// Whatever else a plugin says to a client that does not listen, it hears that the
// lists have changed.
func TestFloodOfAPluginDoesNotDropThatItsListHasChanged(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	f.ready("a", unruly(t, func(stream frames, m message) string {
		switch m.Method {
		case "tools/call":
			none := int64(0)
			for i := range 2000 {
				_ = stream.Send(&plughostv1.Frame{Request: &none, Message: fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%d}}`, i)})
			}
			over := int64(4711)
			_ = stream.Send(&plughostv1.Frame{Request: &over, Message: []byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)})
			return `"result":{"content":[]}`
		}
		return oneTool(m)
	}))
	c := f.open(nil)
	c.post(callOf(1, "x"))
	if a := c.post(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`); !strings.Contains(a.body, "tools/list_changed") {
		t.Errorf("%d messages, and not that", len(a.messages))
	}
}

// Who leaves one call after the other without a session has a plugin that takes its
// time end only some of them.
func TestStreamsOfCallsThatClientsLeaveAreBounded(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	heard := make(chan string, 1)
	var open, most atomic.Int32
	f.ready("a", newRawPlugin(t, func(stream frames) error {
		defer open.Add(-1)
		if n := open.Add(1); n > most.Load() {
			most.Store(n)
		}
		for {
			frame, err := stream.Recv()
			if err != nil {
				<-stream.Context().Done() // it does not end by itself
				return nil
			}
			var m message
			if err := json.Unmarshal(frame.GetMessage(), &m); err != nil {
				return err
			}
			member := methodNotFound
			switch m.Method {
			case "tools/call":
				heard <- m.Method
				continue
			case "initialize":
				member = initialized
			case "tools/list":
				member = listsOneTool
			case "server/discover":
				member = `"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}`
			}
			if m.ID != nil {
				send(stream, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, member))
			}
		}
	}))
	c := f.alone()
	c.header["Mcp-Method"], c.header["Mcp-Name"] = "tools/call", "x"
	for range 300 {
		c.leave(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x",`+rawMeta+`}}`, heard)
	}
	if n := most.Load(); n > 200 {
		t.Errorf("%d streams at once", n)
	}
}
