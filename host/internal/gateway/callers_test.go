package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/host/internal/caller"
	"github.com/plughost/plughost/host/internal/config"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// asCaller has the test say who calls, by a header.
func asCaller(callers map[string]caller.Caller, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := callers[r.Header.Get("Caller")]; ok {
			r = r.WithContext(caller.NewContext(r.Context(), c))
		}
		next.ServeHTTP(w, r)
	})
}

type callingAs string

func (c callingAs) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Caller", string(c))
	return http.DefaultTransport.RoundTrip(r)
}

// connectAs opens a session as a caller.
func (f *front) connectAs(name, path, version string) *mcp.ClientSession {
	f.t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: name}, nil)
	session, err := client.Connect(f.t.Context(), &mcp.StreamableClientTransport{
		Endpoint: f.url + path, HTTPClient: &http.Client{Transport: callingAs(name)},
	}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = session.Close() })
	return session
}

func only(allow ...string) config.Access {
	return config.Access{Agents: []string{}, Tools: config.Tools{Allow: allow}}
}

func TestCallersSeeAndCallWhatTheirTokensAllow(t *testing.T) {
	f := newFront(t, mcpConfig("a"), mcpConfig("b"), agentConfig("echo"))
	callers := map[string]caller.Caller{
		"alice": caller.New("alice", only("a/*")),
		"bob":   caller.New("bob", only("*/two")),
	}
	web := httptest.NewServer(asCaller(callers, f.Handler()))
	t.Cleanup(web.Close)
	f.url = web.URL
	server := newServer("one", "two")
	server.AddPrompt(&mcp.Prompt{Name: "ask"}, nil)
	f.ready("a", newPlugin(t, server))
	f.ready("b", newPlugin(t, newServer("two", "three")))

	for _, version := range versions {
		for _, test := range []struct {
			who, path string
			tools     []string
			prompts   int
			forbidden string
		}{
			{"alice", "/mcp", []string{"a__one", "a__two"}, 1, "b__two"},
			{"alice", "/mcp/a", []string{"one", "two"}, 1, "nope"},
			{"bob", "/mcp", []string{"a__two", "b__two"}, 1, "a__one"},
			{"bob", "/mcp/b", []string{"two"}, 0, "three"},
			{"nobody", "/mcp", []string{"a__one", "a__two", "b__three", "b__two"}, 1, "nope"},
		} {
			session := f.connectAs(test.who, test.path, version)
			expect(t, test.who+" at "+test.path, toolNames(t, session), test.tools)
			prompts, err := session.ListPrompts(t.Context(), nil)
			if err != nil || len(prompts.Prompts) != test.prompts {
				t.Errorf("%s at %s: prompts %v, %v", test.who, test.path, prompts, err)
			}
			for _, tool := range test.tools {
				if got, err := call(t.Context(), session, tool); err != nil || !strings.HasSuffix(tool, got) {
					t.Errorf("%s calls %s: %q, %v", test.who, tool, got, err)
				}
			}
			if got, err := call(t.Context(), session, test.forbidden); err == nil {
				t.Errorf("%s calls %s: %q", test.who, test.forbidden, got)
			}
		}
	}

	for _, test := range []struct {
		who, path string
		want      int
	}{
		{"alice", "/mcp/b", 403},
		{"alice", "/mcp/nope", 403},
		{"nobody", "/mcp/nope", 404},
		{"alice", "/a2a/echo", 403},
		{"alice", "/a2a/echo/.well-known/agent-card.json", 403},
		{"alice", "/a2a/nope", 403},
		{"nobody", "/a2a/nope", 404},
	} {
		request, err := http.NewRequestWithContext(t.Context(), "GET", f.url+test.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := callingAs(test.who).RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != test.want {
			t.Errorf("%s at %s: status %d, want %d", test.who, test.path, response.StatusCode, test.want)
		}
	}
}

// A session is its caller's: to all others it is not there.
func TestSessionOfAnotherCallerIsNotThere(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	callers := map[string]caller.Caller{"alice": caller.New("alice", only("*/*")), "bob": caller.New("bob", only("*/*"))}
	web := httptest.NewServer(asCaller(callers, f.Handler()))
	t.Cleanup(web.Close)
	f.url = web.URL
	f.ready("a", newPlugin(t, newServer("one")))
	for _, path := range []string{"/mcp", "/mcp/a"} {
		id := f.connectAs("alice", path, legacy).ID()
		for who, found := range map[string]bool{"alice": true, "bob": false, "nobody": false} {
			request, err := http.NewRequestWithContext(t.Context(), "POST", f.url+path, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Mcp-Session-Id", id)
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Accept", "application/json, text/event-stream")
			response, err := callingAs(who).RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if got := response.StatusCode == 200; got != found || !found && response.StatusCode != 404 {
				t.Errorf("%s at %s: status %d", who, path, response.StatusCode)
			}
		}
	}
}

func TestCallersFollowTheirTokensAndTheServices(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	callers := map[string]caller.Caller{"alice": caller.New("alice", only("*/one"))}
	web := httptest.NewServer(asCaller(callers, f.Handler()))
	t.Cleanup(web.Close)
	f.url = web.URL
	f.ready("a", newPlugin(t, newServer("one", "two")))
	session := f.connectAs("alice", "/mcp", legacy)
	own := f.connectAs("alice", "/mcp/a", legacy)
	expect(t, "at first", toolNames(t, session), []string{"a__one"})

	callers["alice"] = caller.New("alice", only("*/two"))
	if _, err := call(t.Context(), session, "a__one"); err == nil {
		t.Error("what the token does not allow any more is called")
	}
	expect(t, "with other rights", toolNames(t, session), []string{"a__two"})
	expect(t, "with other rights, at the service", toolNames(t, own), []string{"two"})

	f.Configure([]config.Service{mcpConfig("a"), mcpConfig("b")})
	f.ready("b", newPlugin(t, newServer("two")))
	eventually(t, "the new service is seen", func() bool {
		return slices.Equal(toolNames(t, session), []string{"a__two", "b__two"})
	})
}

// changing is a gateway to which alice comes, whose token a reload can change.
func (f *front) changing(access config.Access) (c *rawClient, change func(config.Access)) {
	f.t.Helper()
	var mu sync.Mutex
	alice := caller.New("alice", access)
	handler := f.Handler()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		who := alice
		mu.Unlock()
		handler.ServeHTTP(w, r.WithContext(caller.NewContext(r.Context(), who)))
	}))
	f.t.Cleanup(web.Close)
	f.url = web.URL
	return f.openAt("/mcp", nil), func(access config.Access) {
		mu.Lock()
		defer mu.Unlock()
		alice = caller.New("alice", access)
	}
}

// nosy makes a plugin that tells the client of each call and asks it, whether in
// its course or not, and answers calls of the tool answer alone. What it reads
// goes to reads, unless it is a request; gone is closed when the session of the
// first call ends.
func nosy(t *testing.T, name string) (plugin *fakeInstance, reads chan string, gone chan struct{}) {
	t.Helper()
	reads, gone = make(chan string, 100), make(chan struct{})
	var watch sync.Once
	plugin = newRawPlugin(t, func(stream frames) error {
		for {
			frame, err := stream.Recv()
			if err != nil {
				return nil
			}
			var m struct {
				message
				Params struct{ Name string } `json:"params"`
			}
			if err := json.Unmarshal(frame.GetMessage(), &m); err != nil {
				return err
			}
			answer := methodNotFound
			switch {
			case m.Method == "initialize":
				answer = strings.Replace(initialized, `"resources":{}`, `"resources":{"subscribe":true}`, 1)
			case m.Method == "tools/list":
				answer = `"result":{"tools":[{"name":"answer","inputSchema":{"type":"object"}},{"name":"hang","inputSchema":{"type":"object"}}]}`
			case m.Method == "resources/list":
				answer = `"result":{"resources":[{"uri":"test://` + name + `","name":"r"}]}`
			case m.Method == "resources/subscribe":
				answer = `"result":{}`
			case m.Method == "tools/call":
				watch.Do(func() { context.AfterFunc(stream.Context(), func() { close(gone) }) })
				var id, none int64
				if err := json.Unmarshal(m.ID, &id); err != nil {
					return err
				}
				for _, to := range []*int64{&id, &none} {
					for _, text := range []string{
						`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + name + `"}}`,
						`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://` + name + `"}}`,
						fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"elicitation/create","params":{"message":%q}}`, *to, name),
					} {
						_ = stream.Send(&plughostv1.Frame{Request: to, Message: []byte(text)})
					}
				}
				if m.Params.Name == "hang" {
					continue
				}
				answer = `"result":{"content":[]}`
			case m.ID == nil || m.Method == "":
				reads <- string(frame.GetMessage())
				continue
			}
			send(stream, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, answer))
		}
	})
	return plugin, reads, gone
}

// A session with a service ends when a reload takes the service from its caller:
// what the service says and was asked goes nowhere, and what the client says to it
// neither.
func TestServiceThatIsTakenFromACallerReachesItNoMore(t *testing.T) {
	f := newFront(t, mcpConfig("a"), mcpConfig("b"))
	f.ready("a", newPlugin(t, newServer("one")))
	plugin, reads, gone := nosy(t, "b")
	f.ready("b", plugin)
	c, change := f.changing(only("*/*"))
	if a := c.ask("resources/subscribe", `"uri":"test://b"`); !strings.Contains(a.body, `"result":{}`) {
		t.Fatalf("%s", a.body)
	}
	hangs := c.send(http.MethodPost, `{"jsonrpc":"2.0","id":"hangs","method":"tools/call","params":{"name":"b__hang"}}`, nil)
	defer hangs.Body.Close()
	next := eventsOf(hangs.Body)
	for _, want := range []string{`"data":"b"`, "test://b", "elicitation/create"} {
		if got := next(); !strings.Contains(got, want) {
			t.Fatalf("in the course of the call comes %s, want %s", got, want)
		}
	}
	// Of this one there waits for the client what belonged to no call.
	if a := c.ask("tools/call", `"name":"b__answer"`); !strings.Contains(a.body, `"content"`) {
		t.Fatalf("%s", a.body)
	}
	for len(reads) > 0 {
		<-reads
	}
	change(only("a/*"))
	if a := c.ask("tools/call", `"name":"a__one"`); !strings.Contains(a.body, `"text":"one"`) || strings.Contains(strings.ReplaceAll(a.body, "tools/list_changed", ""), "b") {
		t.Errorf("a call of another service: %s", a.body)
	}
	if got := next(); !strings.Contains(got, "notifications/cancelled") {
		t.Errorf("of the question comes %s", got)
	}
	if got := next(); !strings.Contains(got, "-32000") {
		t.Errorf("the call ends with %s", got)
	}
	<-gone
	for _, text := range []string{`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, `{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}`} {
		c.post(text)
	}
	if a := c.ask("resources/unsubscribe", `"uri":"test://b"`); !strings.Contains(a.body, "-32002") {
		t.Errorf("unsubscribe: %s", a.body)
	}
	c.ask("logging/setLevel", `"level":"debug"`)
	select {
	case got := <-reads:
		t.Errorf("the service reads %s", got)
	default:
	}

	// Back again it is as if it had never been used.
	change(only("*/*"))
	if a := c.ask("tools/call", `"name":"b__answer"`); !strings.Contains(a.body, `"content"`) {
		t.Errorf("with the service given back: %s", a.body)
	}
}

// What is in flight at a service ends when a reload takes it from the caller, and
// nothing of others does.
func TestCallsInFlightEndWithWhatIsTakenFromTheirCaller(t *testing.T) {
	atEach(t, func(t *testing.T, at endpoint) {
		f := newFront(t, mcpConfig("a"), agentConfig("echo", "a/*"))
		plugin, _, _ := nosy(t, "a")
		f.ready("a", plugin)
		callers := make(map[string]caller.Caller)
		for _, name := range []string{"alice", "bob"} {
			callers[name] = caller.New(name, only("*/*"))
		}
		web := httptest.NewServer(asCaller(callers, f.Handler()))
		t.Cleanup(web.Close)
		f.url = web.URL
		hang := func(who, era string) func() string {
			t.Helper()
			body := `{"jsonrpc":"2.0","id":"hangs","method":"tools/call","params":{"name":"` + at.prefix + `hang",` + rawMeta + `}}`
			header := map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": at.prefix + "hang"}
			c := f.aloneAt(at.path)
			if era == legacy {
				c, header = f.openAt(at.path, map[string]string{"Caller": who}), nil
			}
			c.header["Caller"] = who
			response := c.send(http.MethodPost, body, header)
			t.Cleanup(func() { _ = response.Body.Close() })
			next := eventsOf(response.Body)
			if got := next(); !strings.Contains(got, `"data":"a"`) {
				t.Fatalf("%s, %s: comes %s", who, era, got)
			}
			return next
		}
		var alices, bobs []func() string
		for _, era := range []string{legacy, modern} {
			alices, bobs = append(alices, hang("alice", era)), append(bobs, hang("bob", era))
		}
		f.Grant([]caller.Caller{caller.New("alice", only("b/*"))})
		for _, next := range alices {
			got := next()
			for ; got != "the end" && !strings.Contains(got, "-32000"); got = next() {
			}
			if got == "the end" {
				t.Error("a call ends without an error")
			}
		}
		f.Grant([]caller.Caller{caller.New("bob", only("a/*"))})
		plugin.die()
		for _, next := range bobs {
			lost := false
			for got := next(); got != "the end"; got = next() {
				lost = lost || strings.Contains(got, "ended during the call")
			}
			if !lost {
				t.Error("a call of another caller was cut off before its plugin ended")
			}
		}
	})
}

// An agent from which a service is taken hears nothing of it from then on.
func TestServiceThatIsTakenFromAnAgentReachesItNoMore(t *testing.T) {
	f := newFront(t, mcpConfig("a"), mcpConfig("b"), agentConfig("echo", "*/*"))
	f.ready("a", newPlugin(t, newServer("one")))
	plugin, _, gone := nosy(t, "b")
	f.ready("b", plugin)
	agent := newFakeAgent(t, card(), &echoAgent{})
	heard := make(chan string, 10)
	agent.options = &mcp.ClientOptions{
		LoggingMessageHandler:  func(_ context.Context, req *mcp.LoggingMessageRequest) { heard <- "a message" },
		ResourceUpdatedHandler: func(context.Context, *mcp.ResourceUpdatedNotificationRequest) { heard <- "an update" },
	}
	f.readyAgent("echo", agent)
	session := <-agent.tools
	failed := make(chan error, 1)
	go func() {
		_, err := call(context.Background(), session, "b__hang")
		failed <- err
	}()
	for range 2 { // those of the call, and of none
		if got := <-heard; got != "a message" {
			t.Errorf("the agent hears %s, and has no resources", got)
		}
	}
	changed := agentConfig("echo", "*/*")
	changed.Tools.Deny = []string{"b/*"}
	f.Configure([]config.Service{mcpConfig("a"), mcpConfig("b"), changed})
	unavailableError(t, <-failed, "ended during the call")
	<-gone
	if got, err := call(t.Context(), session, "a__one"); got != "one" || err != nil {
		t.Errorf("another service: %q, error %v", got, err)
	}
	if len(heard) > 0 {
		t.Errorf("the agent hears %s", <-heard)
	}
}

// What one may not see answers like what is not there, whatever is wrong with the
// request.
func TestHiddenIsLikeWhatIsNotThere(t *testing.T) {
	atEach(t, func(t *testing.T, at endpoint) {
		service := mcpConfig("a")
		service.Tools.Deny = []string{"denied*"}
		f := newFront(t, service, mcpConfig("b"))
		web := httptest.NewServer(asCaller(map[string]caller.Caller{"alice": caller.New("alice", only("a/den*", "a/one"))}, f.Handler()))
		t.Cleanup(web.Close)
		f.url = web.URL
		server := newServer("one")
		for _, name := range []string{"hidden", "denied"} {
			server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`)}, nil)
		}
		f.ready("a", newPlugin(t, server))
		f.ready("b", newPlugin(t, newTalker("b", nil)))
		alone, session := f.aloneAt(at.path), f.openAt(at.path, map[string]string{"Caller": "alice"})
		alone.header["Caller"] = "alice"
		ask := func(c *rawClient, method, name, params string) string {
			c.t.Helper()
			if c == alone {
				params += "," + rawMeta
			}
			a := c.do(http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, fmt.Sprintf(params, name)),
				map[string]string{"Mcp-Method": method, "Mcp-Name": name})
			return fmt.Sprint(a.status, strings.ReplaceAll(a.body, name, "NAME"))
		}
		for _, test := range []struct{ method, params, hidden, nowhere string }{
			{"tools/call", `"name":%q,"arguments":{"region":"eu"}`, at.prefix + "hidden", at.prefix + "nope"},
			{"tools/call", `"name":%q,"arguments":{"region":"eu"}`, at.prefix + "denied", at.prefix + "denied2"},
			{"tools/call", `"name":%q`, "b__log", "b__nope"},
			{"prompts/get", `"name":%q`, "b__p", "b__nope"},
			{"resources/read", `"uri":%q`, "test://b", "test://nope"},
			{"resources/read", `"uri":%q`, "test://b/x", "test://nope/x"},
			{"resources/subscribe", `"uri":%q`, "test://b", "test://nope"},
			{"completion/complete", `"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"x","value":""}`, "b__p", "b__nope"},
			{"completion/complete", `"ref":{"type":"ref/resource","uri":%q},"argument":{"name":"x","value":""}`, "test://b/{x}", "test://nope/{x}"},
		} {
			for _, c := range []*rawClient{alone, session} {
				hidden, nowhere := ask(c, test.method, test.hidden, test.params), ask(c, test.method, test.nowhere, test.params)
				if hidden != nowhere || !strings.Contains(hidden, "error") {
					t.Errorf("%s of %s: %s, and of what is not there: %s", test.method, test.hidden, hidden, nowhere)
				}
			}
		}
	})
}
