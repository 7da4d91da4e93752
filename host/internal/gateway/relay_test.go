package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/host/internal/caller"
	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/relay"
	"github.com/plughost/plughost/host/internal/supervise"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// rawClient is any program that speaks MCP over HTTP with one service.
type rawClient struct {
	t      *testing.T
	url    string
	header map[string]string
}

// rawAnswer is an HTTP response; messages are its body, or the events in it.
type rawAnswer struct {
	status   int
	header   http.Header
	body     string
	messages []string
}

func (c *rawClient) send(method, body string, header map[string]string) *http.Response {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.t.Context(), method, c.url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	for _, headers := range []map[string]string{c.header, header} {
		for name, value := range headers {
			request.Header.Set(name, value)
		}
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	return response
}

func (c *rawClient) do(method, body string, header map[string]string) rawAnswer {
	c.t.Helper()
	response := c.send(method, body, header)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	a := rawAnswer{status: response.StatusCode, header: response.Header, body: string(content)}
	if response.Header.Get("Content-Type") != "text/event-stream" {
		a.messages = []string{a.body}
		return a
	}
	for line := range strings.Lines(a.body) {
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok {
			a.messages = append(a.messages, data)
		}
	}
	return a
}

func (c *rawClient) post(body string) rawAnswer {
	c.t.Helper()
	return c.do(http.MethodPost, body, nil)
}

const (
	rawInitialize  = `{"jsonrpc":"2.0","id":"first","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`
	rawInitialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// endpoint is one at which the service a can be called; its tools and prompts are
// named with a prefix there.
type endpoint struct{ path, prefix string }

// endpoints are that of the service, and the one that joins all.
var endpoints = []endpoint{{"/mcp/a", ""}, {"/mcp", "a__"}}

// atEach runs a test at each endpoint.
func atEach(t *testing.T, test func(*testing.T, endpoint)) {
	t.Helper()
	for _, e := range endpoints {
		t.Run(e.path, func(t *testing.T) { test(t, e) })
	}
}

// open begins a session with the service a.
func (f *front) open(header map[string]string) *rawClient {
	f.t.Helper()
	return f.openAt("/mcp/a", header)
}

// openAt begins a session at an endpoint.
func (f *front) openAt(path string, header map[string]string) *rawClient {
	f.t.Helper()
	c := &rawClient{t: f.t, url: f.url + path, header: map[string]string{}}
	for name, value := range header {
		c.header[name] = value
	}
	a := c.post(rawInitialize)
	c.header["Mcp-Session-Id"] = a.header.Get("Mcp-Session-Id")
	if a.status != http.StatusOK || c.header["Mcp-Session-Id"] == "" {
		f.t.Fatalf("initialize: status %d, %s", a.status, a.body)
	}
	if a := c.post(rawInitialized); a.status != http.StatusAccepted {
		f.t.Fatalf("initialized: status %d, %s", a.status, a.body)
	}
	return c
}

// alone is a client of the revision without sessions.
func (f *front) alone() *rawClient { return f.aloneAt("/mcp/a") }

func (f *front) aloneAt(path string) *rawClient {
	return &rawClient{t: f.t, url: f.url + path, header: map[string]string{"Mcp-Protocol-Version": modern}}
}

const rawMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

func (c *rawClient) callAlone(id, tool string) rawAnswer {
	c.t.Helper()
	return c.do(http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,%s}}`, id, tool, rawMeta),
		map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": tool})
}

func TestIDsComeBackAsTheyWereWritten(t *testing.T) {
	atEach(t, func(t *testing.T, at endpoint) {
		f := newFront(t, mcpConfig("a"))
		f.ready("a", newPlugin(t, newServer("one")))
		session, alone := f.openAt(at.path, nil), f.aloneAt(at.path)
		for _, id := range []string{`7`, `9007199254740993`, `1.5`, `-0`, `1e3`, `"a\u0062"`, `"<>"`, `""`} {
			for era, a := range map[string]rawAnswer{
				"with a session": session.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"%sone"}}`, id, at.prefix)),
				"without":        alone.callAlone(id, at.prefix+"one"),
			} {
				if !strings.Contains(a.body, `"id":`+id+`,`) || !strings.Contains(a.body, `"text":"one"`) {
					t.Errorf("%s, id %s: %s", era, id, a.body)
				}
			}
		}
	})
}

// What the relay does not know it passes on as it is, both ways.
func TestNothingIsLostOnTheWay(t *testing.T) {
	atEach(t, func(t *testing.T, at endpoint) {
		const params = `{"name":%q, "later":[1.0, 9007199254740993, "\u00e9"],  "_meta":{"example.com/x":{"progressToken":1}}}`
		const result = `{"content":[], "later":{"n":1.0,"big":9007199254740993,"text":"\u0041"},  "_meta":{"a":1}}`
		f := newFront(t, mcpConfig("a"))
		got := make(chan string, 1)
		f.ready("a", newRawPlugin(t, func(stream frames) error {
			for {
				frame, err := stream.Recv()
				if err != nil {
					return nil
				}
				var m struct {
					message
					Params json.RawMessage `json:"params"`
				}
				if err := json.Unmarshal(frame.GetMessage(), &m); err != nil {
					return err
				}
				switch m.Method {
				case "initialize":
					send(stream, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, initialized))
				case "tools/list":
					send(stream, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}}`, m.ID))
				case "tools/call":
					got <- string(m.Params)
					send(stream, fmt.Sprintf(`{"jsonrpc":"2.0",  "result":%s,"id":%s}`, result, m.ID))
				default:
					if m.ID != nil {
						send(stream, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, methodNotFound))
					}
				}
			}
		}))
		a := f.openAt(at.path, nil).post(`{"params":` + fmt.Sprintf(params, at.prefix+"x") + `,"method":"tools\/call","id":"x","jsonrpc":"2.0"}`)
		if p := <-got; p != fmt.Sprintf(params, "x") {
			t.Errorf("the plugin got %s", p)
		}
		if want := `{"jsonrpc":"2.0",  "result":` + result + `,"id":"x"}`; a.body != want {
			t.Errorf("the client got %s", a.body)
		}
	})
}

func TestWhatIsNoMessageIsRefusedAndHurtsNobody(t *testing.T) {
	atEach(t, func(t *testing.T, at endpoint) {
		f := newFront(t, mcpConfig("a"))
		f.ready("a", newPlugin(t, newServer("one")))
		c := f.openAt(at.path, nil)
		good := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + at.prefix + `one"}}`
		tests := []struct {
			name, body string
			header     map[string]string
			status     int
			say        string
		}{
			{"no JSON", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{]}`, nil, 400, "-32700"},
			{"two methods", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`, nil, 400, "twice"},
			{"a method in another case", `{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}`, nil, 400, "like"},
			{"a batch", `[` + good + `]`, nil, 400, "batch"},
			{"too deep", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}}`, nil, 400, "deeper"},
			{"too large", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"` + strings.Repeat("x", 4<<20) + `"}}`, nil, 413, "larger"},
			{"no session", good, map[string]string{"Mcp-Session-Id": "unknown"}, 404, "session"},
			{"another content type", good, map[string]string{"Content-Type": "text/plain"}, 415, "application/json"},
			{"no stream accepted", good, map[string]string{"Accept": "application/json"}, 406, "event-stream"},
			{"an unknown revision", good, map[string]string{"Mcp-Protocol-Version": "2001-01-01"}, 400, "2001-01-01"},
		}
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				if a := c.do(http.MethodPost, test.body, test.header); a.status != test.status || !strings.Contains(a.body, test.say) {
					t.Errorf("status %d, %s", a.status, a.body)
				}
				if a := c.post(good); !strings.Contains(a.body, `"text":"one"`) {
					t.Errorf("then a call: %s", a.body)
				}
			})
		}
	})
}

func TestTwoRequestsInFlightCannotHaveOneID(t *testing.T) {
	atEach(t, func(t *testing.T, at endpoint) {
		f := newFront(t, mcpConfig("a"))
		started, finish := make(chan struct{}), make(chan struct{})
		server := newServer("one")
		addTool(server, "slow", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			close(started)
			<-finish
			return text("slow"), nil
		})
		f.ready("a", newPlugin(t, server))
		c := f.openAt(at.path, nil)
		first := make(chan rawAnswer, 1)
		go func() {
			first <- c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + at.prefix + `slow"}}`)
		}()
		<-started
		second := c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + at.prefix + `one"}}`)
		if second.status != http.StatusBadRequest || !strings.Contains(second.body, "in flight") {
			t.Errorf("status %d, %s", second.status, second.body)
		}
		close(finish)
		if a := <-first; !strings.Contains(a.body, `"text":"slow"`) {
			t.Errorf("the first: %s", a.body)
		}
	})
}

// converse is a tool that does all that a server can do in the course of a call.
func converse(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	token := req.Params.GetProgressToken()
	if err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1}); err != nil {
		return nil, err
	}
	if err := req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "error", Data: "log"}); err != nil {
		return nil, err
	}
	sampled, err := req.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 1, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "?"}}}})
	if err != nil {
		return nil, err
	}
	elicited, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)})
	if err != nil {
		return nil, err
	}
	roots, err := req.Session.ListRoots(ctx, nil)
	if err != nil {
		return nil, err
	}
	return text(sampled.Content.(*mcp.TextContent).Text + elicited.Action + roots.Roots[0].URI), nil
}

func TestServerTalksToTheClientDuringACall(t *testing.T) {
	atEach(t, func(t *testing.T, at endpoint) {
		f := newFront(t, mcpConfig("a"))
		server := newServer()
		addTool(server, "converse", converse)
		f.ready("a", newPlugin(t, server))
		var sessions sync.WaitGroup
		for n := range 4 { // whose ids and tokens are the same
			sessions.Go(func() {
				heard := make(chan string, 10)
				client := mcp.NewClient(&mcp.Implementation{Name: "client"}, &mcp.ClientOptions{
					CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
						return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: &mcp.TextContent{Text: fmt.Sprint(n)}}, nil
					},
					ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
						return &mcp.ElicitResult{Action: "decline"}, nil
					},
					ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
						heard <- fmt.Sprint(req.Params.ProgressToken)
					},
					LoggingMessageHandler: func(_ context.Context, req *mcp.LoggingMessageRequest) { heard <- fmt.Sprint(req.Params.Data) },
				})
				client.AddRoots(&mcp.Root{URI: "file:///r"})
				session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: f.url + at.path}, &mcp.ClientSessionOptions{ProtocolVersion: legacy})
				if err != nil {
					t.Error(err)
					return
				}
				defer session.Close()
				if err := session.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "info"}); err != nil {
					t.Error(err)
				}
				params := &mcp.CallToolParams{Name: at.prefix + "converse"}
				params.SetProgressToken("token")
				result, err := session.CallTool(t.Context(), params)
				if err != nil {
					t.Error(err)
					return
				}
				if got, want := result.Content[0].(*mcp.TextContent).Text, fmt.Sprint(n)+"declinefile:///r"; got != want {
					t.Errorf("result %q, want %q", got, want)
				}
				for _, want := range []string{"token", "log"} {
					if got := <-heard; got != want {
						t.Errorf("heard %q, want %q", got, want)
					}
				}
			})
		}
		sessions.Wait()
	})
}

func TestCancellationOfARelayedCallReachesThePlugin(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			f := newFront(t, mcpConfig("a"))
			server := newServer("one")
			started, canceled := make(chan struct{}), make(chan struct{})
			addTool(server, "hang", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				close(started)
				<-ctx.Done()
				close(canceled)
				return nil, ctx.Err()
			})
			f.ready("a", newPlugin(t, server))
			session := f.connect("/mcp/a", version, nil)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-started
				cancel()
			}()
			if _, err := call(ctx, session, "hang"); err == nil {
				t.Error("a call that was canceled has a result")
			}
			<-canceled
			if got, err := call(t.Context(), session, "one"); got != "one" || err != nil {
				t.Errorf("then: %q, error %v", got, err)
			}
		})
	}
}

func TestAnswerThatTakesLongBecomesAStream(t *testing.T) {
	f := newFront(t)
	f.common.relay = relay.Options{Quiet: time.Millisecond}
	f.Configure([]config.Service{mcpConfig("a")})
	finish := make(chan struct{})
	server := newServer()
	addTool(server, "slow", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		<-finish
		return text("slow"), nil
	})
	f.ready("a", newPlugin(t, server))
	response := f.open(nil).send(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}`, nil)
	defer response.Body.Close()
	close(finish) // the headers are here
	body, err := io.ReadAll(response.Body)
	if err != nil || response.Header.Get("Content-Type") != "text/event-stream" || !strings.Contains(string(body), `"text":"slow"`) {
		t.Errorf("%s: %s, error %v", response.Header.Get("Content-Type"), body, err)
	}
}

// The plugin sends the client away; what comes then is there when it returns.
func TestStreamThatThePluginClosesIsTakenUpAgain(t *testing.T) {
	atEach(t, func(t *testing.T, at endpoint) {
		f := newFront(t, mcpConfig("a"))
		server := newServer()
		away := make(chan struct{})
		addTool(server, "later", func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: 20 * time.Millisecond})
			<-away
			return text("later"), nil
		})
		f.ready("a", newPlugin(t, server))
		c := f.openAt(at.path, nil)
		first := c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + at.prefix + `later"}}`)
		if !strings.Contains(first.body, "retry: 20\n") || strings.Contains(first.body, "result") {
			t.Errorf("the first stream: %q", first.body)
		}
		close(away)
		_, id, _ := strings.Cut(first.body, "id: ")
		id, _, _ = strings.Cut(id, "\n")
		if again := c.do(http.MethodGet, "", map[string]string{"Last-Event-ID": id}); !strings.Contains(again.body, `"text":"later"`) {
			t.Errorf("the second: %q", again.body)
		}
		if a := c.do(http.MethodGet, "", map[string]string{"Last-Event-ID": id}); a.status != http.StatusBadRequest {
			t.Errorf("the third: status %d", a.status)
		}

		away = make(chan struct{})
		close(away)
		if got, err := call(t.Context(), f.connect(at.path, legacy, nil), at.prefix+"later"); got != "later" || err != nil {
			t.Errorf("the official client: %q, error %v", got, err)
		}
	})
}

// A session outlives its plugin, with all that was said in it.
func TestSessionOutlivesItsPlugin(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	plugin := func() *mcp.Server {
		server := mcp.NewServer(&mcp.Implementation{Name: "plugin"}, &mcp.ServerOptions{
			SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
			UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		})
		addTool(server, "log", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text("logged"), req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "error", Data: "log"})
		})
		server.AddResource(&mcp.Resource{URI: "test://r", Name: "r"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return nil, nil
		})
		return server
	}
	first := newPlugin(t, plugin())
	f.ready("a", first)
	heard := make(chan string, 100)
	session := f.connect("/mcp/a", legacy, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { heard <- "changed" },
		LoggingMessageHandler:  func(context.Context, *mcp.LoggingMessageRequest) { heard <- "log" },
		ResourceUpdatedHandler: func(_ context.Context, req *mcp.ResourceUpdatedNotificationRequest) { heard <- req.Params.URI },
	})
	if err := session.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "info"}); err != nil {
		t.Fatal(err)
	}
	if err := session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "test://r"}); err != nil {
		t.Fatal(err)
	}
	first.die()
	f.enter("a", supervise.Backoff, "")
	_, err := call(t.Context(), session, "log")
	unavailableError(t, err, "cannot be called")

	server := plugin()
	f.ready("a", newPlugin(t, server))
	if got, err := call(t.Context(), session, "log"); got != "logged" || err != nil {
		t.Errorf("%q, error %v", got, err)
	}
	want := []string{"changed", "log"}
	for range want {
		got := <-heard
		if !slices.Contains(want, got) {
			t.Errorf("heard %q", got)
		}
	}
	if err := server.ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: "test://r"}); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != "test://r" {
		t.Errorf("heard %q", got)
	}
}

func TestClientThatDoesNotListenHearsOfChangesWithItsNextCall(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	first := newPlugin(t, newServer("one"))
	f.ready("a", first)
	c := f.open(nil)
	first.die()
	f.enter("a", supervise.Backoff, "")
	f.ready("a", newPlugin(t, newServer("one")))
	const one = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one"}}`
	a := c.post(one)
	if n := len(a.messages); n < 2 || !strings.Contains(a.body, "notifications/tools/list_changed") || !strings.Contains(a.messages[n-1], `"text":"one"`) {
		t.Errorf("%s", a.body)
	}
	if a := c.post(one); len(a.messages) != 1 || strings.Contains(a.body, "list_changed") {
		t.Errorf("again: %s", a.body)
	}
}

func TestSessionEndsIfThePluginSpeaksAnotherRevision(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	first := newPlugin(t, newServer("one"))
	f.ready("a", first)
	c := f.open(nil)
	first.die()
	f.enter("a", supervise.Backoff, "")
	f.ready("a", unruly(t, func(_ frames, m message) string {
		if m.Method == "initialize" {
			return strings.Replace(initialized, "2025-11-25", "2025-06-18", 1)
		}
		return methodNotFound
	}))
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	if a := c.post(ping); !strings.Contains(a.body, "2025-06-18") {
		t.Errorf("%s", a.body)
	}
	if a := c.post(ping); a.status != http.StatusNotFound {
		t.Errorf("then: status %d", a.status)
	}
}

func TestCallInFlightFailsWithItsPluginAndIsNotRepeated(t *testing.T) {
	atEach(t, func(t *testing.T, at endpoint) {
		f := newFront(t, mcpConfig("a"))
		var calls atomic.Int32
		started := make(chan struct{}, 2)
		hang := func() *mcp.Server {
			server := newServer()
			addTool(server, "hang", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				calls.Add(1)
				started <- struct{}{}
				<-ctx.Done()
				return nil, ctx.Err()
			})
			return server
		}
		plugin := newPlugin(t, hang())
		f.ready("a", plugin)
		c, alone := f.openAt(at.path, nil), f.aloneAt(at.path)
		answers := make(chan rawAnswer, 2)
		go func() {
			answers <- c.post(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"` + at.prefix + `hang"}}`)
		}()
		go func() { answers <- alone.callAlone(`"x"`, at.prefix+"hang") }()
		<-started
		<-started
		plugin.die()
		f.enter("a", supervise.Backoff, "")
		f.ready("a", newPlugin(t, hang()))
		for range 2 {
			a := <-answers
			if a.status != http.StatusOK || !strings.Contains(a.body, `"id":"x"`) || !strings.Contains(a.body, "-32000") || !strings.Contains(a.body, "not repeated") {
				t.Errorf("status %d, %s", a.status, a.body)
			}
		}
		if n := calls.Load(); n != 2 {
			t.Errorf("the plugins got %d calls, want 2", n)
		}
	})
}

// What a plugin has asked a client is withdrawn when nobody waits for the answer
// any more.
func TestQuestionsOfAPluginThatDiesAreWithdrawn(t *testing.T) {
	atEach(t, func(t *testing.T, at endpoint) {
		f := newFront(t, mcpConfig("a"))
		server := newServer()
		addTool(server, "ask", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			_, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)})
			return nil, err
		})
		plugin := newPlugin(t, server)
		f.ready("a", plugin)
		c := &rawClient{t: t, url: f.url + at.path, header: map[string]string{}}
		c.header["Mcp-Session-Id"] = c.post(strings.Replace(rawInitialize, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1)).header.Get("Mcp-Session-Id")
		c.post(rawInitialized)
		response := c.send(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+at.prefix+`ask"}}`, nil)
		defer response.Body.Close()
		next := eventsOf(response.Body)
		asked := next()
		var question struct{ ID json.RawMessage }
		if err := json.Unmarshal([]byte(asked), &question); err != nil || !strings.Contains(asked, "elicitation/create") {
			t.Fatalf("first comes %s, error %v", asked, err)
		}
		plugin.die()
		if got := next(); !strings.Contains(got, "notifications/cancelled") || !strings.Contains(got, fmt.Sprintf(`"requestId":%s`, question.ID)) {
			t.Errorf("then comes %s", got)
		}
		if got := next(); !strings.Contains(got, "-32000") {
			t.Errorf("at last comes %s", got)
		}
	})
}

// eventsOf returns a function that returns the next message of a stream of
// events.
func eventsOf(body io.Reader) func() string {
	lines := bufio.NewScanner(body)
	return func() string {
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && data != "" {
				return data
			}
		}
		return "the end"
	}
}

func TestServiceThatIsNotThereSaysSo(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	c := &rawClient{t: t, url: f.url + "/mcp/a"}
	for era, a := range map[string]rawAnswer{"with sessions": c.post(rawInitialize), "without": f.alone().callAlone(`1`, "one")} {
		if a.status != http.StatusOK || !strings.Contains(a.body, "-32000") || !strings.Contains(a.body, "not started yet") {
			t.Errorf("%s: status %d, %s", era, a.status, a.body)
		}
	}
}

func TestSessionIsItsCallersAlone(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	f.ready("a", newPlugin(t, newServer("one", "two")))
	handler := f.Handler()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		access := config.Access{Tools: config.Tools{Allow: []string{"a/one"}}}
		handler.ServeHTTP(w, r.WithContext(caller.NewContext(r.Context(), caller.New(r.Header.Get("Who"), access))))
	}))
	defer web.Close()
	f.url = web.URL
	alice := f.open(map[string]string{"Who": "alice"})
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		if a := alice.do(method, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, map[string]string{"Who": "bob"}); a.status != http.StatusNotFound {
			t.Errorf("%s of another: status %d", method, a.status)
		}
	}
	if a := alice.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); !strings.Contains(a.body, `"name":"one"`) || strings.Contains(a.body, `"name":"two"`) {
		t.Errorf("tools: %s", a.body)
	}
	if a := alice.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"two"}}`); !strings.Contains(a.body, "unknown tool") {
		t.Errorf("a tool that is hidden: %s", a.body)
	}
	if a := alice.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one","name":"two"}}`); !strings.Contains(a.body, "twice") {
		t.Errorf("two names: %s", a.body)
	}
}

func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	f.common.relay = relay.Options{MaxSessions: 1, IdleTimeout: 3 * time.Second} // enough for what is done at once
	f.Configure([]config.Service{mcpConfig("a")})
	f.ready("a", newPlugin(t, newServer("one")))
	c := f.open(nil)
	if a := (&rawClient{t: t, url: c.url}).post(rawInitialize); a.status != http.StatusTooManyRequests {
		t.Errorf("one too many: status %d", a.status)
	}
	// A client that listens, and does nothing else, is idle.
	if a := c.do(http.MethodGet, "", nil); a.status != http.StatusOK {
		t.Errorf("its stream: status %d", a.status)
	}
	if a := c.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`); a.status != http.StatusNotFound {
		t.Errorf("then: status %d", a.status)
	}
	again := f.open(nil)
	if a := again.do(http.MethodDelete, "", nil); a.status != http.StatusNoContent {
		t.Errorf("delete: status %d", a.status)
	}
	f.open(nil)
}

// The plugin's notification that belongs to no call goes to who listens.
func TestListenerGetsWhatBelongsToNoCall(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	server := newServer("one")
	f.ready("a", newPlugin(t, server))
	c := f.open(nil)
	response := c.send(http.MethodGet, "", nil)
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	if lines.Scan(); !strings.HasPrefix(lines.Text(), ":") {
		t.Fatalf("the stream begins with %q", lines.Text())
	}
	addTool(server, "two", nil)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "notifications/tools/list_changed") {
			return
		}
	}
	t.Error("the stream ended")
}

func TestAnswersOfAPluginThatDoesNotSayWhatTheyBelongTo(t *testing.T) {
	atEach(t, func(t *testing.T, at endpoint) {
		f := newFront(t, mcpConfig("a"))
		f.ready("a", unruly(t, func(stream frames, m message) string {
			switch m.Method {
			case "tools/call":
				send(stream, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"gone","progress":1}}`)
				send(stream, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"mine","progress":2}}`)
				send(stream, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"d"}}`)
				return `"result":{"content":[]}`
			}
			return oneTool(m)
		}))
		a := f.openAt(at.path, nil).post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + at.prefix + `x","_meta":{"progressToken":"mine"}}}`)
		if len(a.messages) != 3 || !strings.Contains(a.messages[0], "mine") || !strings.Contains(a.messages[1], "message") || !strings.Contains(a.messages[2], "result") {
			t.Errorf("%q", a.messages)
		}
	})
}

// What is left of a request does not reach the next one.
func TestLateMessagesAreDroppedWithoutSessions(t *testing.T) {
	atEach(t, func(t *testing.T, at endpoint) {
		f := newFront(t, mcpConfig("a"))
		f.ready("a", unruly(t, func(stream frames, m message) string {
			if m.Method == "tools/call" {
				send(stream, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"whose?"}}`)
				other := int64(4711)
				_ = stream.Send(&plughostv1.Frame{Request: &other, Message: []byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"other"}}`)})
				return `"result":{"content":[]}`
			}
			if m.Method == "tools/list" {
				return listsOneTool
			}
			return initialized
		}))
		c := f.aloneAt(at.path)
		for range 2 {
			if a := c.callAlone(`1`, at.prefix+"x"); len(a.messages) != 1 || !strings.Contains(a.body, "result") {
				t.Errorf("%q", a.messages)
			}
		}
	})
}

func TestHeadersMustSayWhatIsInTheMessage(t *testing.T) {
	atEach(t, func(t *testing.T, at endpoint) {
		f := newFront(t, mcpConfig("a"))
		server := newServer("one")
		server.AddTool(&mcp.Tool{Name: "where", InputSchema: json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"}}}`)},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("there"), nil })
		f.ready("a", newPlugin(t, server))
		where := func(arguments string) string {
			return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + at.prefix + `where","arguments":` + arguments + `,` + rawMeta + `}}`
		}
		headers := func(pairs ...string) map[string]string {
			header := map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": at.prefix + "where"}
			for i := 0; i < len(pairs); i += 2 {
				header[pairs[i]] = pairs[i+1]
			}
			return header
		}
		tests := []struct {
			name, body string
			header     map[string]string
			status     int
			say        string
		}{
			{"all is well", where(`{"region":"eu","n":7}`), headers("Mcp-Param-Region", "eu", "Mcp-Param-N", "7"), 200, "there"},
			{"encoded", where(`{"region":"\u00e9"}`), headers("Mcp-Param-Region", "=?base64?w6k=?="), 200, "there"},
			{"an argument's header is missing", where(`{"region":"eu"}`), headers(), 400, "-32020"},
			{"an argument's header is another", where(`{"region":"eu"}`), headers("Mcp-Param-Region", "us"), 400, "-32020"},
			{"an argument is missing", where(`{}`), headers("Mcp-Param-Region", "us"), 400, "-32020"},
			{"another method", where(`{}`), headers("Mcp-Method", "tools/list"), 400, "-32020"},
			{"no method", where(`{}`), headers("Mcp-Method", ""), 400, "-32020"},
			{"another name", where(`{}`), headers("Mcp-Name", "one"), 400, "-32020"},
			{"another revision", where(`{}`), headers("Mcp-Protocol-Version", "2026-08-01"), 400, "-32020"},
			{"no revision in the message", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + at.prefix + `where"}}`, headers(), 400, "-32602"},
			{"an unknown tool", strings.Replace(where(`{}`), "where", "nope", 1), headers("Mcp-Name", "nope"), 400, "nope"},
			{"an unknown method", `{"jsonrpc":"2.0","id":1,"method":"no/such","params":{` + rawMeta + `}}`, headers("Mcp-Method", "no/such"), 404, "-32601"},
		}
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				if a := f.aloneAt(at.path).do(http.MethodPost, test.body, test.header); a.status != test.status || !strings.Contains(a.body, test.say) {
					t.Errorf("status %d, %s", a.status, a.body)
				}
			})
		}
	})
}

// Who speaks a revision of which nobody here knows is told which there are.
func TestRevisionThatIsNotKnownIsRefused(t *testing.T) {
	atEach(t, func(t *testing.T, at endpoint) {
		const later = "2099-01-01"
		f := newFront(t, mcpConfig("a"))
		f.ready("a", unruly(t, func(_ frames, m message) string {
			switch m.Method {
			case "initialize":
				return initialized
			case "tools/list":
				return `"result":{"tools":[{"name":"one","inputSchema":{"type":"object"}}]}`
			}
			return `"result":{}` // it does not mind
		}))
		c := f.aloneAt(at.path)
		c.header["Mcp-Protocol-Version"] = later
		for method, params := range map[string]string{
			"tools/call":           `"name":"` + at.prefix + `one",`,
			"server/discover":      "",
			"subscriptions/listen": `"notifications":{},`,
		} {
			body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + strings.Replace(rawMeta, modern, later, 1) + `}}`
			a := c.do(http.MethodPost, body, map[string]string{"Mcp-Method": method, "Mcp-Name": at.prefix + "one"})
			want := `"data":{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"2099-01-01"}`
			if a.status != http.StatusBadRequest || !strings.Contains(a.body, `"id":1,"error":{"code":-32022,`) || !strings.Contains(a.body, want) {
				t.Errorf("%s: status %d, %s", method, a.status, a.body)
			}
		}
		a := c.do(http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/cancelled"}`, map[string]string{"Mcp-Method": "notifications/cancelled"})
		if a.status != http.StatusBadRequest || !strings.Contains(a.body, "-32022") {
			t.Errorf("a notification: status %d, %s", a.status, a.body)
		}
	})
}

// Two requests to listen are two subscriptions, each with its client's id.
func TestSubscriptionsAreNamedAsTheirClientsNameThem(t *testing.T) {
	atEach(t, func(t *testing.T, at endpoint) {
		f := newFront(t, mcpConfig("a"))
		server := newServer("one")
		f.ready("a", newPlugin(t, server))
		var streams []*bufio.Scanner
		for _, id := range []string{`"mine"`, `77`} {
			response := f.aloneAt(at.path).send(http.MethodPost, `{"jsonrpc":"2.0","id":`+id+`,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+rawMeta+`}}`,
				map[string]string{"Mcp-Method": "subscriptions/listen"})
			defer response.Body.Close()
			lines := bufio.NewScanner(response.Body)
			for lines.Scan() && !strings.Contains(lines.Text(), "acknowledged") { // until it listens
			}
			streams = append(streams, lines)
		}
		addTool(server, "two", nil)
		for i, id := range []string{`"mine"`, `77`} {
			for streams[i].Scan() && !strings.Contains(streams[i].Text(), "list_changed") {
			}
			if got := streams[i].Text(); !strings.Contains(got, `"io.modelcontextprotocol/subscriptionId":`+id) {
				t.Errorf("%q", got)
			}
		}
	})
}

func TestOfferedToolsChangeForWhoListens(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			f := newFront(t, mcpConfig("a"))
			f.ready("a", newPlugin(t, newServer("one", "two")))
			var changed atomic.Bool
			session := f.connect("/mcp/a", version, &mcp.ClientOptions{
				ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed.Store(true) },
			})
			expect(t, "at first", toolNames(t, session), []string{"one", "two"})
			less := mcpConfig("a")
			less.Tools.Deny = []string{"t*"}
			eventually(t, "the client listens and hears of it", func() bool {
				f.Configure([]config.Service{mcpConfig("a")})
				f.Configure([]config.Service{less})
				return changed.Load()
			})
			expect(t, "then", toolNames(t, session), []string{"one"})
			_, err := call(t.Context(), session, "two")
			var refused *jsonrpc.Error
			if !errors.As(err, &refused) || refused.Code != jsonrpc.CodeInvalidParams {
				t.Errorf("error %v", err)
			}
		})
	}
}

// Who listens without a session hears of changes after a restart, too: of all
// that may have changed meanwhile, and of what changes then.
func TestListeningOutlivesThePlugin(t *testing.T) {
	noGoroutineStays(t)
	f := newFront(t, mcpConfig("a"))
	first := newPlugin(t, newServer("one"))
	f.ready("a", first)
	response := f.alone().send(http.MethodPost, `{"jsonrpc":"2.0","id":"x","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+rawMeta+`}}`,
		map[string]string{"Mcp-Method": "subscriptions/listen"})
	defer response.Body.Close()
	next := eventsOf(response.Body)
	if got := next(); !strings.Contains(got, "acknowledged") {
		t.Fatalf("first comes %s", got)
	}
	first.die()
	f.enter("a", supervise.Backoff, "")
	server := newServer("one")
	f.ready("a", newPlugin(t, server))
	for _, when := range []string{"after the restart", "after a change"} {
		if got := next(); !strings.Contains(got, "tools/list_changed") || !strings.Contains(got, `"io.modelcontextprotocol/subscriptionId":"x"`) {
			t.Errorf("%s comes %s", when, got)
		}
		addTool(server, "two", nil)
	}
	f.enter("a", supervise.Stopped, "")
	f.change(config.KindMCP, "a", supervise.Status{State: supervise.Removed}, nil)
	for got := next(); got != "the end"; got = next() {
		if !strings.Contains(got, "list_changed") {
			t.Errorf("at last comes %s", got)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// A client that does not take a large answer holds up no other call, not even
// of its own session.
func TestLargeAnswerThatIsNotReadHoldsUpNobody(t *testing.T) {
	atEach(t, func(t *testing.T, at endpoint) {
		f := newFront(t, mcpConfig("a"))
		server := newServer("one")
		large := strings.Repeat("x", 16<<20)
		sent := make(chan struct{}, 1)
		addTool(server, "large", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			sent <- struct{}{}
			return text(large), nil
		})
		f.ready("a", newPlugin(t, server))
		c := f.openAt(at.path, nil)
		conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
			t.Fatal(err)
		}
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + at.prefix + `large"}}`
		if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMcp-Session-Id: %s\r\n"+
			"Accept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n%s", at.path, c.header["Mcp-Session-Id"], len(body), body); err != nil {
			t.Fatal(err)
		}
		<-sent
		for id := 2; id < 12; id++ {
			if a := c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%sone"}}`, id, at.prefix)); !strings.Contains(a.body, `"text":"one"`) {
				t.Errorf("%s", a.body)
			}
		}
		if a := c.post(`{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":"` + at.prefix + `large"}}`); !strings.Contains(a.body, large) {
			t.Errorf("%d bytes, for who reads them", len(a.body))
		}
	})
}

// What is kept for as long as a session lasts is not large.
func TestSessionKeepsNoLargeMessages(t *testing.T) {
	atEach(t, func(t *testing.T, at endpoint) {
		f := newFront(t, mcpConfig("a"))
		f.ready("a", newPlugin(t, newServer("one")))
		large := `"_meta":{"x":"` + strings.Repeat("x", 300_000) + `"},`
		c := &rawClient{t: t, url: f.url + at.path}
		if a := c.post(strings.Replace(rawInitialize, `"params":{`, `"params":{`+large, 1)); a.header.Get("Mcp-Session-Id") != "" || !strings.Contains(a.body, "no more than") {
			t.Errorf("initialize: session %q, %s", a.header.Get("Mcp-Session-Id"), a.body)
		}
		if n := f.Sessions()["a"] + f.Sessions()[""]; n != 0 {
			t.Errorf("%d sessions", n)
		}
		if a := f.openAt(at.path, nil).ask("logging/setLevel", large+`"level":"info"`); !strings.Contains(a.body, "no more than") {
			t.Errorf("setLevel: %s", a.body)
		}
	})
}
