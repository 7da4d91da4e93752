package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/host/internal/caller"
	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/supervise"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// ask makes a request, as a client of either era does.
func (c *rawClient) ask(method, params string) rawAnswer {
	c.t.Helper()
	header := map[string]string{}
	if c.header["Mcp-Protocol-Version"] == modern {
		header["Mcp-Method"] = method
		if params != "" {
			params += ","
		}
		params += rawMeta
	}
	return c.do(http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, params), header)
}

// Objects in lists are as their services wrote them, but for the name.
func TestListsAreAsTheirServicesWroteThem(t *testing.T) {
	lists := map[string]struct{ member, object, want string }{
		"tools/list": {
			"tools", `{"later":[1.0,9007199254740993,"\u00e9"], "name" : "\u0074ool","title":"T","icons":[{"src":"i"}],"inputSchema":{"x":1e3,"type":"object"},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"_meta":{"a":1}}`,
			`{"later":[1.0,9007199254740993,"\u00e9"], "name" : "a__tool","title":"T","icons":[{"src":"i"}],"inputSchema":{"x":1e3,"type":"object"},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"_meta":{"a":1}}`,
		},
		"prompts/list":             {"prompts", `{"name":"p","arguments":[],"later":{"name":"p"}}`, `{"name":"a__p","arguments":[],"later":{"name":"p"}}`},
		"resources/list":           {"resources", `{"name":"r","uri":"test:\/\/r","size":1.0}`, `{"name":"r","uri":"test:\/\/r","size":1.0}`},
		"resources/templates/list": {"resourceTemplates", `{"name":"t","uriTemplate":"test://{x}","later":-0}`, `{"name":"t","uriTemplate":"test://{x}","later":-0}`},
	}
	f := newFront(t, mcpConfig("a"))
	f.ready("a", unruly(t, func(_ frames, m message) string {
		if list, ok := lists[m.Method]; ok {
			return fmt.Sprintf(`"result":{"%s":[%s]}`, list.member, list.object)
		}
		return initialized
	}))
	for _, c := range []*rawClient{f.openAt("/mcp", nil), f.aloneAt("/mcp")} {
		for method, list := range lists {
			if a := c.ask(method, ""); !strings.Contains(a.body, fmt.Sprintf(`{"%s":[%s]`, list.member, list.want)) {
				t.Errorf("%s: %s", method, a.body)
			}
		}
	}
}

func TestPagesOfJoinedLists(t *testing.T) {
	f := newFront(t, mcpConfig("a"), mcpConfig("b"))
	server := newServer()
	for i := range 1200 {
		addTool(server, fmt.Sprintf("t%04d", i), nil)
	}
	f.ready("a", newPlugin(t, newServer("one")))
	f.ready("b", newPlugin(t, server))
	c := f.openAt("/mcp", nil)
	page := func(params string) (names []string, cursor string) {
		t.Helper()
		var answer struct {
			Result struct {
				Tools      []struct{ Name string }
				NextCursor string
			}
		}
		a := c.ask("tools/list", params)
		if err := json.Unmarshal([]byte(a.messages[len(a.messages)-1]), &answer); err != nil {
			t.Fatalf("%v: %s", err, a.body)
		}
		for _, tool := range answer.Result.Tools {
			names = append(names, tool.Name)
		}
		return names, answer.Result.NextCursor
	}
	first, cursor := page("")
	if len(first) != 1000 || first[0] != "a__one" || first[999] != "b__t0998" || cursor == "" {
		t.Errorf("the first page has %d tools, %q to %q, and the cursor %q", len(first), first[0], first[len(first)-1], cursor)
	}
	f.enter("a", supervise.Stopped, "") // moves nothing on the pages to come
	rest, end := page(fmt.Sprintf(`"cursor":%q`, cursor))
	if len(rest) != 201 || rest[0] != "b__t0999" || end != "" {
		t.Errorf("the second page has %d tools from %q on, and the cursor %q", len(rest), rest[0], end)
	}
	if a := c.ask("tools/list", `"cursor":"!"`); !strings.Contains(a.body, "-32602") {
		t.Errorf("with a made up cursor: %s", a.body)
	}
}

// stream is a client's stream of notifications.
type stream struct {
	who  string
	next func() string
}

// listenTo opens a stream of each era for a client that calls a tool; it listens
// when it returns.
func (f *front) listenTo(path, tool string, header map[string]string) (streams []stream) {
	f.t.Helper()
	c := f.openAt(path, header)
	if a := c.ask("tools/call", fmt.Sprintf(`"name":%q`, tool)); !strings.Contains(a.body, "result") {
		f.t.Fatalf("%s", a.body)
	}
	listens := c.send(http.MethodGet, "", nil)
	f.t.Cleanup(func() { _ = listens.Body.Close() })
	streams = append(streams, stream{"with a session", eventsOf(listens.Body)})
	alone := f.aloneAt(path)
	for name, value := range header {
		alone.header[name] = value
	}
	asks := alone.send(http.MethodPost, `{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"promptsListChanged":true},`+rawMeta+`}}`,
		map[string]string{"Mcp-Method": "subscriptions/listen"})
	f.t.Cleanup(func() { _ = asks.Body.Close() })
	s := stream{"without a session", eventsOf(asks.Body)}
	if got := s.next(); !strings.Contains(got, "acknowledged") || !strings.Contains(got, `"promptsListChanged":true`) {
		f.t.Fatalf("first comes %s", got)
	}
	return append(streams, s)
}

// Of a change each client that sees it hears once, and finds it when it looks; of a
// restart that changed nothing nobody hears.
func TestChangeOfAListIsToldExactlyOnce(t *testing.T) {
	f := newFront(t, mcpConfig("a"), mcpConfig("b"))
	web := httptest.NewServer(asCaller(map[string]caller.Caller{"alice": caller.New("alice", only("a/*"))}, f.Handler()))
	t.Cleanup(web.Close)
	f.url = web.URL
	newB := func(tools ...string) (*mcp.Server, *fakeInstance) {
		server := newServer(tools...)
		addPrompt(server, "p")
		return server, newPlugin(t, server)
	}
	serverA := newServer("one")
	addPrompt(serverA, "p")
	f.ready("a", newPlugin(t, serverA))
	serverB, pluginB := newB("one")
	f.ready("b", pluginB)
	all := f.listenTo("/mcp", "b__one", nil)
	alices := f.listenTo("/mcp", "a__one", map[string]string{"Caller": "alice"})
	mark := 0
	hear := func(when string, streams []stream, want ...string) {
		t.Helper()
		// Changes of two services come in no order, and with each what is too much
		// of those before.
		want = append(want, "prompts")
		for _, s := range streams {
			var got []string
			for range want {
				_, list, _ := strings.Cut(s.next(), `"notifications/`)
				list, _, _ = strings.Cut(list, "/list_changed")
				got = append(got, list)
			}
			if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
				t.Errorf("%s, %s: %q changed, want %q", when, s.who, got, want)
			}
		}
	}
	toldOfPrompts := func() {
		mark++
		addPrompt(serverA, fmt.Sprint("mark", mark))
	}
	tools := f.openAt("/mcp", nil)
	eventuallyListed := func(name string) {
		t.Helper()
		eventually(t, name+" is listed", func() bool { return strings.Contains(tools.ask("tools/list", "").body, name) })
	}

	addTool(serverB, "two", nil)
	eventuallyListed("b__two")
	toldOfPrompts()
	hear("a tool came", all, "tools")
	hear("a tool came that is not seen", alices)

	pluginB.die()
	f.enter("b", supervise.Backoff, "")
	_, same := newB("one", "two")
	f.ready("b", same)
	toldOfPrompts()
	hear("a restart changed nothing", all)
	hear("a restart changed nothing", alices)

	same.die()
	f.enter("b", supervise.Backoff, "")
	_, more := newB("one", "two", "three")
	f.ready("b", more)
	toldOfPrompts()
	hear("a tool came with a restart", all, "tools")
	hear("a tool came with a restart that is not seen", alices)

	less := mcpConfig("b")
	less.Tools.Deny = []string{"t*"}
	f.Configure([]config.Service{mcpConfig("a"), less})
	toldOfPrompts()
	hear("tools were denied", all, "tools")
	hear("tools were denied that are not seen", alices)

	f.Configure([]config.Service{mcpConfig("a")})
	f.enter("b", supervise.Stopped, "")
	f.change(config.KindMCP, "b", supervise.Status{State: supervise.Removed}, nil)
	for _, s := range all {
		lists := []string{s.next(), s.next()}
		slices.Sort(lists)
		if !strings.Contains(lists[0], "prompts") || !strings.Contains(lists[1], "tools") {
			t.Errorf("the service went, %s: comes %s", s.who, lists)
		}
	}
	toldOfPrompts()
	hear("after that", all)
	hear("the service went that is not seen", alices)
}

// A service may tell what it was not asked for: at the joined endpoint clients hear
// of lists from the gateway alone.
func TestListChangedOfAServiceIsNotPassedOnBesideTheGateways(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	f.ready("a", unruly(t, func(stream frames, m message) string {
		switch m.Method {
		case "initialize":
			return strings.Replace(initialized, `"resources":{}`, `"resources":{"subscribe":true}`, 1)
		case "server/discover":
			return `"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}`
		case "tools/list":
			return listsOneTool
		case "resources/list":
			return `"result":{"resources":[{"uri":"test://r","name":"r"}]}`
		case "tools/call":
			var id int64
			if err := json.Unmarshal(m.ID, &id); err != nil {
				return methodNotFound
			}
			_ = stream.Send(&plughostv1.Frame{Request: &id, Message: []byte(changed)})
			return `"result":{"content":[]}`
		case "subscriptions/listen":
			send(stream, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true}}}`)
			send(stream, changed)
			send(stream, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://r"}}`)
			return ""
		}
		return methodNotFound
	}))
	c := f.aloneAt("/mcp")
	response := c.send(http.MethodPost, `{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["test://r"]},`+rawMeta+`}}`,
		map[string]string{"Mcp-Method": "subscriptions/listen"})
	defer response.Body.Close()
	next := eventsOf(response.Body)
	if got := next(); !strings.Contains(got, "acknowledged") {
		t.Errorf("first comes %s", got)
	}
	if got := next(); !strings.Contains(got, "test://r") {
		t.Errorf("then comes %s", got)
	}
	if a := c.callAlone("1", "a__x"); len(a.messages) != 1 || !strings.Contains(a.body, "content") {
		t.Errorf("a call: %s", a.body)
	}
}

// newTalker makes a server that logs, asks, has a resource and completes, and says
// its name in all of it.
func newTalker(name string, roots chan<- string) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: name}, &mcp.ServerOptions{
		Instructions:            "Ask " + name + ".",
		SubscribeHandler:        func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler:      func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		RootsListChangedHandler: func(context.Context, *mcp.RootsListChangedRequest) { roots <- name },
		CompletionHandler: func(_ context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{name + " " + req.Params.Ref.Name + req.Params.Ref.URI}}}, nil
		},
	})
	addTool(server, "ask", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		result, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: name, RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)})
		if err != nil {
			return nil, err
		}
		return text(fmt.Sprint(result.Content["said"])), nil
	})
	addTool(server, "log", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("logged"), req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: name})
	})
	addPrompt(server, "p")
	server.AddResource(&mcp.Resource{URI: "test://" + name, Name: name}, read(name))
	server.AddResource(&mcp.Resource{URI: "test://same", Name: "same"}, read(name))
	server.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "test://" + name + "/{x}", Name: name}, read(name))
	return server
}

func newTalkers(t *testing.T, names ...string) (f *front, servers map[string]*mcp.Server, plugins map[string]*fakeInstance, roots chan string) {
	t.Helper()
	servers, plugins, roots = make(map[string]*mcp.Server), make(map[string]*fakeInstance), make(chan string, 10)
	var services []config.Service
	for _, name := range names {
		services = append(services, mcpConfig(name))
	}
	f = newFront(t, services...)
	for _, name := range names {
		servers[name] = newTalker(name, roots)
		plugins[name] = newPlugin(t, servers[name])
		f.ready(name, plugins[name])
	}
	return f, servers, plugins, roots
}

// The questions of services have the same ids, and each gets its own answer.
func TestServicesAskTheClientAtOnce(t *testing.T) {
	f, _, _, roots := newTalkers(t, "a", "b")
	var together sync.WaitGroup
	together.Add(2)
	client := mcp.NewClient(&mcp.Implementation{Name: "client"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			together.Done()
			together.Wait()
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"said": "to " + req.Params.Message}}, nil
		},
	})
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: f.url + "/mcp"}, &mcp.ClientSessionOptions{ProtocolVersion: legacy})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	var calls sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		calls.Go(func() {
			if got, err := call(t.Context(), session, name+"__ask"); got != "to "+name || err != nil {
				t.Errorf("%s: %q, error %v", name, got, err)
			}
		})
	}
	calls.Wait()
	client.AddRoots(&mcp.Root{URI: "file:///r"})
	told := []string{<-roots, <-roots}
	slices.Sort(told)
	expect(t, "told of the roots", told, []string{"a", "b"})
}

// What was said in a session holds for the services that come into it later, and
// for those that come back.
func TestSessionOfSeveralServicesOutlivesThem(t *testing.T) {
	f, servers, plugins, _ := newTalkers(t, "a", "b")
	heard := make(chan string, 100)
	session := f.connect("/mcp", legacy, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { heard <- "changed" },
		LoggingMessageHandler:  func(_ context.Context, req *mcp.LoggingMessageRequest) { heard <- fmt.Sprint("log ", req.Params.Data) },
		ResourceUpdatedHandler: func(_ context.Context, req *mcp.ResourceUpdatedNotificationRequest) { heard <- req.Params.URI },
	})
	hear := func(want string) {
		t.Helper()
		if got := <-heard; got != want {
			t.Errorf("heard %q, want %q", got, want)
		}
	}
	if err := session.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "info"}); err != nil {
		t.Fatal(err)
	}
	for _, uri := range []string{"test://a", "test://b", "test://same"} {
		if err := session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}); err != nil {
			t.Fatal(err)
		}
	}
	logs := func(name string) {
		t.Helper()
		if _, err := call(t.Context(), session, name+"__log"); err != nil {
			t.Fatal(err)
		}
		hear("log " + name)
	}
	logs("a")
	plugins["a"].die()
	f.enter("a", supervise.Backoff, "")
	logs("b")
	_, err := call(t.Context(), session, "a__log")
	unavailableError(t, err, "service a cannot be called")
	servers["a"] = newTalker("a", nil)
	f.ready("a", newPlugin(t, servers["a"]))
	logs("a") // and of no change
	updated := func(name, uri string) {
		t.Helper()
		if err := servers[name].ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: uri}); err != nil {
			t.Fatal(err)
		}
	}
	updated("a", "test://a")
	hear("test://a")
	// The one that has it first in the configuration is subscribed to.
	updated("b", "test://same")
	updated("b", "test://b")
	hear("test://b")
	updated("a", "test://same")
	hear("test://same")
	f.Configure([]config.Service{mcpConfig("b"), mcpConfig("a")})
	if err := session.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: "test://same"}); err != nil {
		t.Fatal(err)
	}
	updated("a", "test://same")
	updated("a", "test://a")
	hear("test://a")
}

func TestCompletionGoesToTheServiceOfItsReference(t *testing.T) {
	f, _, _, _ := newTalkers(t, "a", "b")
	for _, version := range versions {
		session := f.connect("/mcp", version, nil)
		for _, test := range []struct {
			ref  mcp.CompleteReference
			want string
		}{
			{mcp.CompleteReference{Type: "ref/prompt", Name: "b__p"}, "b p"},
			{mcp.CompleteReference{Type: "ref/resource", URI: "test://b/{x}"}, "b test://b/{x}"},
			{mcp.CompleteReference{Type: "ref/resource", URI: "test://a"}, "a test://a"},
			{mcp.CompleteReference{Type: "ref/prompt", Name: "p"}, ""},
			{mcp.CompleteReference{Type: "ref/resource", URI: "test://nobody"}, ""},
		} {
			result, err := session.Complete(t.Context(), &mcp.CompleteParams{Ref: &test.ref, Argument: mcp.CompleteParamsArgument{Name: "x", Value: "v"}})
			if test.want == "" {
				if err == nil {
					t.Errorf("%s: %+v is completed", version, test.ref)
				}
				continue
			}
			if err != nil || !slices.Equal(result.Completion.Values, []string{test.want}) {
				t.Errorf("%s: %+v is completed with %v, error %v", version, test.ref, result, err)
			}
		}
	}
}

func TestListenerHearsOfResourcesOfSeveralServices(t *testing.T) {
	f, servers, plugins, _ := newTalkers(t, "a", "b")
	response := f.aloneAt("/mcp").send(http.MethodPost, `{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["test://a","test://b","test://nobody"]},`+rawMeta+`}}`,
		map[string]string{"Mcp-Method": "subscriptions/listen"})
	defer response.Body.Close()
	next := eventsOf(response.Body)
	if got := next(); !strings.Contains(got, "acknowledged") || !strings.Contains(got, `"resourceSubscriptions":["test://a","test://b"]`) {
		t.Fatalf("first comes %s", got)
	}
	heard := make(chan string, 10_000)
	go func() {
		for got := next(); got != "the end"; got = next() {
			heard <- got
		}
	}()
	hear := func(name string) {
		t.Helper()
		eventually(t, "the client hears of "+name, func() bool { // a service may not know of it yet
			_ = servers[name].ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: "test://" + name})
			select {
			case got := <-heard:
				if !strings.Contains(got, `"io.modelcontextprotocol/subscriptionId":"l"`) {
					t.Errorf("comes %s", got)
				}
				return strings.Contains(got, "test://"+name)
			default:
				return false
			}
		})
	}
	hear("a")
	plugins["b"].die()
	f.enter("b", supervise.Backoff, "")
	servers["b"] = newTalker("b", nil)
	f.ready("b", newPlugin(t, servers["b"]))
	hear("b")
	hear("a")
}

// What a client subscribes to costs it little, and the host too.
func TestSubscriptionsAreBounded(t *testing.T) {
	atEach(t, func(t *testing.T, at endpoint) {
		f, _, _, _ := newTalkers(t, "a")
		listen := func(n, size int) rawAnswer {
			t.Helper()
			uris := make([]string, n)
			for i := range uris {
				uris[i] = fmt.Sprintf(`"test://nobody/%0*d"`, size, i)
			}
			response := f.aloneAt(at.path).send(http.MethodPost, `{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":[`+strings.Join(uris, ",")+`]},`+rawMeta+`}}`,
				map[string]string{"Mcp-Method": "subscriptions/listen"})
			defer response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return rawAnswer{status: response.StatusCode, body: eventsOf(response.Body)()}
			}
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			return rawAnswer{status: response.StatusCode, body: string(body)}
		}
		if a := listen(1000, 1); a.status != http.StatusOK || !strings.Contains(a.body, "acknowledged") {
			t.Errorf("to 1000 resources: status %d, %s", a.status, a.body)
		}
		for _, a := range []rawAnswer{listen(1001, 1), listen(100, 10_000)} {
			if a.status != http.StatusBadRequest || !strings.Contains(a.body, "no more than 1000") {
				t.Errorf("to too much: status %d, %s", a.status, a.body)
			}
		}
		c := f.openAt(at.path, nil)
		if a := c.ask("resources/subscribe", `"uri":"test://a","x":"`+strings.Repeat("x", 300_000)+`"`); !strings.Contains(a.body, "no more than 1000") {
			t.Errorf("a large subscription: %s", a.body)
		}
		if a := c.ask("resources/subscribe", `"uri":"test://a"`); !strings.Contains(a.body, `"result"`) {
			t.Errorf("a subscription: %s", a.body)
		}
	})
}

// A result that asks for more input goes to the client, and its answer to the same
// tool.
func TestResultsThatAskForInputPass(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	server := newServer()
	addTool(server, "confirm", func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if answer, ok := req.Params.InputResponses["sure"].(*mcp.ElicitResult); ok {
			return text(answer.Action + " " + req.Params.RequestState), nil
		}
		return &mcp.CallToolResult{
			InputRequests: mcp.InputRequestMap{"sure": &mcp.ElicitParams{Message: "Sure?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)}},
			RequestState:  "the state",
		}, nil
	})
	f.ready("a", newPlugin(t, server))
	for _, version := range []string{legacy, modern} {
		session := f.connect("/mcp", version, &mcp.ClientOptions{
			ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: "accept"}, nil
			},
		})
		if got, err := call(t.Context(), session, "a__confirm"); got != "accept the state" || err != nil {
			t.Errorf("%s: %q, error %v", version, got, err)
		}
	}
}

func TestGatewayAnswersForAllServices(t *testing.T) {
	f, _, _, _ := newTalkers(t, "a", "b")
	for version, want := range map[string]string{"2024-11-05": "2024-11-05", "2025-11-25": "2025-11-25", "2099-01-01": "2025-11-25"} {
		c := &rawClient{t: t, url: f.url + "/mcp", header: map[string]string{}}
		a := c.post(strings.Replace(rawInitialize, "2025-11-25", version, 1))
		c.header["Mcp-Session-Id"] = a.header.Get("Mcp-Session-Id")
		for _, part := range []string{`"protocolVersion":"` + want + `"`, `"completions":{}`, `"logging":{}`, `"subscribe":true`, "Ask a.", "Ask b.", "b__"} {
			if !strings.Contains(a.body, part) {
				t.Errorf("%s: %s is not in %s", version, part, a.body)
			}
		}
		c.post(rawInitialized)
		for method, says := range map[string]string{
			"ping": `"result":{}`, "initialize": "-32600", "no/such": "-32601", "server/discover": "-32601", "logging/setLevel": "is no level",
		} {
			if a := c.ask(method, ""); a.status != http.StatusOK || !strings.Contains(a.body, says) {
				t.Errorf("%s: %s: status %d, %s", version, method, a.status, a.body)
			}
		}
		if a := c.ask("tools/call", `"name":"a__log"`); !strings.Contains(a.body, "logged") {
			t.Errorf("%s: %s", version, a.body)
		}
		if a := c.ask("resources/read", `"uri":"test://nobody"`); !strings.Contains(a.body, "-32002") {
			t.Errorf("%s: %s", version, a.body)
		}
	}

	alone := f.aloneAt("/mcp")
	for _, part := range []string{`"supportedVersions":["2026-07-28","2025-11-25"`, `"resultType":"complete"`, "Ask b.", `"io.modelcontextprotocol/serverInfo":{"name":"plughost"`} {
		if a := alone.ask("server/discover", ""); !strings.Contains(a.body, part) {
			t.Errorf("%s is not in %s", part, a.body)
		}
	}
	for _, test := range []struct {
		method, meta, version string
		status                int
		says                  string
	}{
		{"ping", rawMeta, modern, 404, "-32601"},
		{"tools/list", strings.ReplaceAll(rawMeta, modern, "2026-09-09"), "2026-09-09", 400, `"supported":["2026-07-28"`},
		{"tools/list", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`, modern, 400, "clientCapabilities"},
		{"subscriptions/listen", rawMeta, modern, 400, "notifications"},
	} {
		a := alone.do(http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, test.method, test.meta),
			map[string]string{"Mcp-Method": test.method, "Mcp-Protocol-Version": test.version})
		if a.status != test.status || !strings.Contains(a.body, test.says) {
			t.Errorf("%s: status %d, %s", test.method, a.status, a.body)
		}
	}
}

// A call that is cancelled while its session is opened at the service is not made.
func TestCallIsCancelledBeforeItsServiceHasIt(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	var sessions, calls atomic.Int32
	opening, open := make(chan struct{}), make(chan struct{})
	f.ready("a", unruly(t, func(_ frames, m message) string {
		switch m.Method {
		case "initialize":
			if sessions.Add(1) == 2 { // the first is for the lists
				close(opening)
				<-open
			}
			return initialized
		case "tools/list":
			return listsOneTool
		case "tools/call":
			calls.Add(1)
			return `"result":{"content":[]}`
		}
		return methodNotFound
	}))
	c := f.openAt("/mcp", nil)
	answer := make(chan rawAnswer, 1)
	go func() { answer <- c.ask("tools/call", `"name":"a__x"`) }()
	<-opening
	c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	close(open)
	if a := <-answer; !strings.Contains(a.body, "-32000") || !strings.Contains(a.body, "was cancelled") {
		t.Errorf("%s", a.body)
	}
	if a := c.ask("tools/call", `"name":"a__x"`); !strings.Contains(a.body, `"content"`) {
		t.Errorf("another one: %s", a.body)
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls were made, want 1", n)
	}
}

// A service that reads nothing any more keeps what is for all from no other one.
func TestServiceThatDoesNotReadHoldsUpNoOther(t *testing.T) {
	f := newFront(t, mcpConfig("stuck"), mcpConfig("a"))
	reads, goOn := make(chan struct{}, 10), make(chan struct{})
	defer close(goOn)
	f.ready("stuck", unruly(t, func(stream frames, m message) string {
		switch m.Method {
		case "tools/call":
			reads <- struct{}{}
			select {
			case <-goOn:
			case <-stream.Context().Done():
			}
			return ""
		}
		return oneTool(m)
	}))
	roots := make(chan string, 10)
	f.ready("a", newPlugin(t, newTalker("a", roots)))
	c := f.openAt("/mcp", nil)
	if a := c.ask("tools/call", `"name":"a__log"`); !strings.Contains(a.body, "logged") {
		t.Fatalf("%s", a.body)
	}
	var calls sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer calls.Wait()
	defer cancel()
	for id := range 3 { // more than its stream takes unread
		calls.Go(func() {
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":"stuck%d","method":"tools/call","params":{"name":"stuck__x","arguments":{"x":%q}}}`, id, strings.Repeat("x", 1<<20))
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Accept", "application/json, text/event-stream")
			request.Header.Set("Mcp-Session-Id", c.header["Mcp-Session-Id"])
			if response, err := http.DefaultClient.Do(request); err == nil {
				_ = response.Body.Close()
			}
		})
	}
	<-reads
	if a := c.post(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`); a.status != http.StatusAccepted {
		t.Errorf("status %d, %s", a.status, a.body)
	}
	if got := <-roots; got != "a" {
		t.Errorf("%s is told", got)
	}
	if a := c.ask("logging/setLevel", `"level":"info"`); !strings.Contains(a.body, `"result":{}`) {
		t.Errorf("%s", a.body)
	}
	if a := c.ask("tools/call", `"name":"a__log"`); len(a.messages) != 2 || !strings.Contains(a.messages[0], `"data":"a"`) {
		t.Errorf("%s", a.body)
	}
}

// A removed service takes its own calls with it, and nothing else of a session.
func TestRemovedServiceEndsItsOwnCalls(t *testing.T) {
	f := newFront(t, mcpConfig("a"), mcpConfig("b"))
	started := make(chan struct{})
	server := newServer()
	addTool(server, "hang", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	f.ready("a", newPlugin(t, server))
	f.ready("b", newPlugin(t, newServer("one")))
	session := f.connect("/mcp", legacy, nil)
	failed := make(chan error, 1)
	go func() {
		_, err := call(context.Background(), session, "a__hang")
		failed <- err
	}()
	<-started
	f.Configure([]config.Service{mcpConfig("b")})
	f.enter("a", supervise.Stopped, "")
	f.change(config.KindMCP, "a", supervise.Status{State: supervise.Removed}, nil)
	unavailableError(t, <-failed, "ended during the call")
	if got, err := call(t.Context(), session, "b__one"); got != "one" || err != nil {
		t.Errorf("%q, error %v", got, err)
	}
	_, err := call(t.Context(), session, "a__hang")
	var refused *jsonrpc.Error
	if !errors.As(err, &refused) || refused.Code != jsonrpc.CodeInvalidParams {
		t.Errorf("error %v", err)
	}
}

func TestClientWhoseAccessChangesIsToldWhatIsDifferent(t *testing.T) {
	f := newFront(t, mcpConfig("a"), mcpConfig("b"))
	callers := map[string]caller.Caller{"alice": caller.New("alice", only("a/*"))}
	web := httptest.NewServer(asCaller(callers, f.Handler()))
	t.Cleanup(web.Close)
	f.url = web.URL
	for _, name := range []string{"a", "b"} {
		server := newServer("one")
		server.AddResource(&mcp.Resource{URI: "test://same", Name: "same"}, read(name))
		f.ready(name, newPlugin(t, server))
	}
	c := f.openAt("/mcp", map[string]string{"Caller": "alice"})
	for _, test := range []struct {
		access  config.Access
		changed string
		reads   string
	}{
		{only("a/*"), "", "a test"},
		{only("b/*"), "tools", "b test"}, // the resource is listed alike
		{only("b/*"), "", "b test"},
		{only("*/*"), "tools", "a test"},
		{config.Access{Tools: config.Tools{Allow: []string{"*/*"}}, Services: []string{}}, "tools resources", ""},
	} {
		callers["alice"] = caller.New("alice", test.access)
		a := c.ask("ping", "")
		var changed []string
		for _, message := range a.messages[:len(a.messages)-1] {
			_, list, _ := strings.Cut(message, "notifications/")
			list, _, _ = strings.Cut(list, "/")
			changed = append(changed, list)
		}
		expect(t, fmt.Sprintf("what is told with %+v", test.access), changed, strings.Fields(test.changed))
		if a := c.ask("resources/read", `"uri":"test://same"`); !strings.Contains(a.body, test.reads) || (test.reads == "") != strings.Contains(a.body, "-32002") {
			t.Errorf("%+v: %s", test.access, a.body)
		}
	}
}

// listed is a plugin that tells of each time that its tools are listed.
func listed(t *testing.T, told chan<- string, name string) *fakeInstance {
	return unruly(t, func(_ frames, m message) string {
		switch m.Method {
		case "initialize":
			return initialized
		case "tools/list":
			told <- name
			return `"result":{"tools":[{"name":"one","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			return `"result":{"content":[]}`
		}
		return methodNotFound
	})
}

// While services start, what those have that are ready already is read only for
// those who ask; then it is read for all.
func TestListsAreReadWhenTheyAreNeededOrAllIsCalm(t *testing.T) {
	f := newFront(t, mcpConfig("a"), mcpConfig("b"), mcpConfig("c"))
	told := make(chan string, 10)
	read := func(want ...string) {
		t.Helper()
		var got []string
		for range want {
			got = append(got, <-told)
		}
		slices.Sort(got)
		expect(t, "lists were read", got, want)
	}
	f.enter("c", supervise.Starting, "")
	f.ready("a", listed(t, told, "a"))
	f.ready("b", listed(t, told, "b"))
	select {
	case name := <-told:
		t.Errorf("the list of %s was read while c is starting", name)
	default:
	}
	alone := f.aloneAt("/mcp/b")
	if a := alone.callAlone(`1`, "one"); a.status != http.StatusOK {
		t.Errorf("a call: status %d, %s", a.status, a.body)
	}
	read("b")
	f.ready("c", listed(t, told, "c"))
	read("a", "c")
	expect(t, "tools", toolNames(t, f.connect("/mcp", legacy, nil)), []string{"a__one", "b__one", "c__one"})

	// One that is there again has not to be waited for: what it has is known.
	f.enter("c", supervise.Starting, "")
	f.enter("a", supervise.Backoff, "it died")
	f.ready("a", listed(t, told, "a"))
	session := f.connect("/mcp", legacy, nil)
	expect(t, "tools", toolNames(t, session), []string{"a__one", "b__one", "c__one"})
	f.enter("c", supervise.Failed, "")
	read("a")
}

// Who comes while services start sees what those have that are ready.
func TestClientWaitsForListsThatWereNeverRead(t *testing.T) {
	for _, version := range versions {
		f := newFront(t, mcpConfig("a"), mcpConfig("b"))
		f.enter("b", supervise.Starting, "")
		f.ready("a", newPlugin(t, newServer("one")))
		expect(t, version, toolNames(t, f.connect("/mcp", version, nil)), []string{"a__one"})
	}
}
