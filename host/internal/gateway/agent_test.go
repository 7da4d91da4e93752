package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/hashicorp/go-hclog"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/host/internal/caller"
	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/supervise"
	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/a2ahttp"
	"github.com/plughost/plughost/shared/calldepth"
)

func card() *a2a.AgentCard {
	return &a2a.AgentCard{
		Name:         "echo",
		Version:      "1.2.3",
		Description:  "repeats",
		Capabilities: a2a.AgentCapabilities{Streaming: true},
		SupportedInterfaces: []*a2a.AgentInterface{
			a2a.NewAgentInterface("http://inside.example/rpc", a2a.TransportProtocolJSONRPC),
		},
		Skills:             []a2a.AgentSkill{{ID: "echo", Name: "echo", Description: "repeats", Tags: []string{"t"}}},
		DefaultInputModes:  []string{"text"},
		DefaultOutputModes: []string{"text"},
	}
}

// echoAgent repeats what it is told, in a task, or fails.
type echoAgent struct {
	begun  chan struct{} // sent to when a task begins, if not nil
	end    chan struct{} // awaited before it ends, if not nil
	params chan map[string][]string
}

func (e *echoAgent) Execute(ctx context.Context, execCtx *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		if e.params != nil {
			got := make(map[string][]string)
			for _, name := range []string{a2a.SvcParamExtensions, "Authorization", shared.CallerMetadata, "x-request-id", "traceparent"} {
				got[name], _ = execCtx.ServiceParams.Get(name)
			}
			e.params <- got
		}
		text := execCtx.Message.Parts[0].Text()
		if text == "fail" {
			yield(nil, a2a.NewError(a2a.ErrUnsupportedContentType, "I cannot read this"))
			return
		}
		if !yield(a2a.NewSubmittedTask(execCtx, execCtx.Message), nil) ||
			!yield(a2a.NewStatusUpdateEvent(execCtx, a2a.TaskStateWorking, nil), nil) {
			return
		}
		if e.begun != nil {
			e.begun <- struct{}{}
		}
		if e.end != nil {
			select {
			case <-e.end:
			case <-ctx.Done():
			}
		}
		if yield(a2a.NewArtifactEvent(execCtx, a2a.NewTextPart(text)), nil) {
			yield(a2a.NewStatusUpdateEvent(execCtx, a2a.TaskStateCompleted, nil), nil)
		}
	}
}

func (e *echoAgent) Cancel(_ context.Context, execCtx *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(execCtx, a2a.TaskStateCanceled, nil), nil)
	}
}

// dial makes a client of an agent from its card.
func (f *front) dial(name string) *a2aclient.Client {
	f.t.Helper()
	card, err := agentcard.DefaultResolver.Resolve(f.t.Context(), f.url+"/a2a/"+name)
	if err != nil {
		f.t.Fatal(err)
	}
	client, err := a2aclient.NewFromCard(f.t.Context(), card)
	if err != nil {
		f.t.Fatal(err)
	}
	return client
}

// dialBy makes a client that has only one binding of one version.
func (f *front) dialBy(name string, binding a2a.TransportProtocol, version a2a.ProtocolVersion) *a2aclient.Client {
	f.t.Helper()
	card, err := agentcard.DefaultResolver.Resolve(f.t.Context(), f.url+"/a2a/"+name)
	if err != nil {
		f.t.Fatal(err)
	}
	card.SupportedInterfaces = slices.DeleteFunc(card.SupportedInterfaces, func(i *a2a.AgentInterface) bool {
		return i.ProtocolBinding != binding || i.ProtocolVersion != version
	})
	client, err := a2aclient.NewFromCard(f.t.Context(), card,
		a2aclient.WithCompatTransport(a2av0.Version, a2a.TransportProtocolJSONRPC, a2av0.NewJSONRPCTransportFactory(a2av0.JSONRPCTransportConfig{})),
		a2aclient.WithCompatTransport(a2av0.Version, a2a.TransportProtocolHTTPJSON, a2av0.NewRESTTransportFactory(a2av0.RESTTransportConfig{})))
	if err != nil {
		f.t.Fatal(err)
	}
	return client
}

func say(text string) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(text))}
}

func TestCardIsTheAgentsWithTheGatewaysURL(t *testing.T) {
	f := newFront(t, agentConfig("echo"))
	extended := card()
	extended.Description = "extended"
	full := card()
	full.Capabilities.ExtendedAgentCard = true
	f.readyAgent("echo", newFakeAgent(t, full, &echoAgent{}, a2asrv.WithExtendedAgentCard(extended)))
	want := f.url + "/a2a/echo"
	got, err := agentcard.DefaultResolver.Resolve(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	if got.Name != "echo" || got.Version != "1.2.3" || len(got.Skills) != 1 || !got.Capabilities.Streaming {
		t.Errorf("card %+v", got)
	}
	expectInterfaces(t, got, want)
	got, err = f.dial("echo").GetExtendedAgentCard(t.Context(), &a2a.GetExtendedAgentCardRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Description != "extended" {
		t.Errorf("extended card %+v", got)
	}
	expectInterfaces(t, got, want)
}

// expectInterfaces wants both bindings in both versions at one URL.
func expectInterfaces(t *testing.T, card *a2a.AgentCard, url string) {
	t.Helper()
	var got []string
	for _, i := range card.SupportedInterfaces {
		got = append(got, fmt.Sprintf("%s %s %s", i.ProtocolBinding, i.ProtocolVersion, i.URL))
	}
	expect(t, "interfaces", got, []string{"JSONRPC 1.0 " + url, "HTTP+JSON 1.0 " + url, "JSONRPC 0.3 " + url, "HTTP+JSON 0.3 " + url})
}

func TestMessageAndItsTask(t *testing.T) {
	f := newFront(t, agentConfig("echo"))
	f.readyAgent("echo", newFakeAgent(t, card(), &echoAgent{}))
	client := f.dial("echo")
	result, err := client.SendMessage(t.Context(), say("hello"))
	if err != nil {
		t.Fatal(err)
	}
	task, ok := result.(*a2a.Task)
	if !ok || task.Status.State != a2a.TaskStateCompleted || task.Artifacts[0].Parts[0].Text() != "hello" {
		t.Errorf("result %+v", result)
	}
	again, err := client.GetTask(t.Context(), &a2a.GetTaskRequest{ID: task.ID})
	if err != nil || again.ID != task.ID {
		t.Errorf("task %+v, error %v", again, err)
	}
	if _, err := client.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: task.ID}); err == nil || !strings.Contains(err.Error(), "cancel") {
		t.Errorf("error %v, want one of a task that is over", err)
	}
}

func TestStreamComesEventByEvent(t *testing.T) {
	f := newFront(t, agentConfig("echo"))
	echo := &echoAgent{begun: make(chan struct{}, 1), end: make(chan struct{})}
	f.readyAgent("echo", newFakeAgent(t, card(), echo))
	working, completed := false, false
	for event, err := range f.dial("echo").SendStreamingMessage(t.Context(), say("hello")) {
		if err != nil {
			t.Fatal(err)
		}
		update, ok := event.(*a2a.TaskStatusUpdateEvent)
		switch {
		case !ok:
		case update.Status.State == a2a.TaskStateWorking:
			working = true
			close(echo.end) // the agent goes on only when this was seen
		case update.Status.State == a2a.TaskStateCompleted:
			completed = true
		}
	}
	if !working || !completed {
		t.Errorf("working %v, completed %v", working, completed)
	}
}

func TestAgentsErrorsKeepTheirKindAndMessage(t *testing.T) {
	f := newFront(t, agentConfig("echo"))
	f.readyAgent("echo", newFakeAgent(t, card(), &echoAgent{}))
	_, err := f.dial("echo").SendMessage(t.Context(), say("fail"))
	if err == nil || !strings.Contains(err.Error(), "I cannot read this") {
		t.Errorf("error %v", err)
	}
	_, err = f.dial("echo").GetTask(t.Context(), &a2a.GetTaskRequest{ID: "unknown"})
	if err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("error %v", err)
	}
}

func TestOnlySomeHeadersPassToTheAgent(t *testing.T) {
	f := newFront(t, agentConfig("echo"))
	echo := &echoAgent{params: make(chan map[string][]string, 1)}
	f.readyAgent("echo", newFakeAgent(t, card(), echo))
	rpc(t, f.url+"/a2a/echo", map[string]string{
		a2a.SvcParamVersion: "1.0", a2a.SvcParamExtensions: "urn:x", "Authorization": "Bearer secret", "X-Request-Id": "r-1", "Traceparent": "00-1",
	}, `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}}}`)
	got := <-echo.params
	if extensions := got[a2a.SvcParamExtensions]; len(extensions) != 1 || extensions[0] != "urn:x" {
		t.Errorf("extensions %q", extensions)
	}
	if id, parent := got["x-request-id"], got["traceparent"]; !slices.Equal(id, []string{"r-1"}) || !slices.Equal(parent, []string{"00-1"}) {
		t.Errorf("the request is %q, in the trace %q", id, parent)
	}
	if secret := got["Authorization"]; len(secret) > 0 {
		t.Errorf("the agent got the client's authorization")
	}
}

func TestAgentIsToldWhoCalls(t *testing.T) {
	f := newFront(t, agentConfig("echo"))
	echo := &echoAgent{params: make(chan map[string][]string, 1)}
	f.readyAgent("echo", newFakeAgent(t, card(), echo))
	handler := f.Handler()
	for name, want := range map[string][]string{"alice": {"alice"}, caller.Owner: nil, "": nil} {
		request := httptest.NewRequestWithContext(caller.NewContext(t.Context(), caller.Caller{Name: name}), http.MethodPost, "/a2a/echo", strings.NewReader(sendHi))
		request.Header.Set(shared.CallerMetadata, "mallory")
		handler.ServeHTTP(httptest.NewRecorder(), request)
		if got := (<-echo.params)[shared.CallerMetadata]; !slices.Equal(got, want) {
			t.Errorf("%q calls, the agent is told %q", name, got)
		}
	}
}

// rpc makes a raw request and returns the error member of its answer.
func rpc(t *testing.T, url string, headers map[string]string, body string) (code int, message string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Error struct {
			Code    int
			Message string
		}
	}
	if err := json.Unmarshal(content, &answer); err != nil {
		t.Fatalf("%v: %s", err, content)
	}
	return answer.Error.Code, answer.Error.Message
}

const sendHi = `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}}}`

func TestAgentThatIsGoneSaysWhy(t *testing.T) {
	f := newFront(t, agentConfig("echo"))
	f.readyAgent("echo", newFakeAgent(t, card(), &echoAgent{}))
	f.enterAgent("echo", supervise.Failed, "gave up after 3 failures")
	const want = "agent echo cannot be called: it failed: gave up after 3 failures"
	if code, message := rpc(t, f.url+"/a2a/echo", map[string]string{a2a.SvcParamVersion: "1.0"}, sendHi); code != -32000 || !strings.Contains(message, want) {
		t.Errorf("code %d, message %q", code, message)
	}
	response, err := http.Get(f.url + "/a2a/echo" + a2asrv.WellKnownAgentCardPath)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), want) {
		t.Errorf("card: status %d, %s", response.StatusCode, body)
	}
}

func TestAgentThatDiesFailsItsMessage(t *testing.T) {
	f := newFront(t, agentConfig("echo"))
	agent, echo := f.busyAgent()
	client := f.dial("echo")
	go func() {
		<-echo.begun
		agent.die()
	}()
	_, err := client.SendMessage(t.Context(), say("hello"))
	if err == nil || !strings.Contains(err.Error(), "agent echo ended during the request, which is not repeated") {
		t.Errorf("error %v", err)
	}
	f.enterAgent("echo", supervise.Backoff, "")
	if _, err = client.SendMessage(t.Context(), say("hello")); err == nil || !strings.Contains(err.Error(), "cannot be called") {
		t.Errorf("a later message: error %v", err)
	}
}

func TestAgentSeesAndCallsOnlyWhatItWasGranted(t *testing.T) {
	granted := agentConfig("granted", "a/*", "b/one")
	granted.Tools.Deny = []string{"a/secret"}
	f := newFront(t, mcpConfig("a"), mcpConfig("b"), granted, agentConfig("nothing"))
	f.ready("a", newPlugin(t, newServer("one", "secret", "dir/one")))
	server := newServer("one", "two")
	addPrompt(server, "p")
	f.ready("b", newPlugin(t, server))
	for name, want := range map[string][]string{
		"granted": {"a__dir/one", "a__one", "b__one"},
		"nothing": nil,
	} {
		agent := newFakeAgent(t, card(), &echoAgent{})
		f.readyAgent(name, agent)
		session := <-agent.tools
		expect(t, name, toolNames(t, session), want)
		for _, tool := range want {
			if _, err := call(t.Context(), session, tool); err != nil {
				t.Errorf("%s: %s: %v", name, tool, err)
			}
		}
		for _, tool := range []string{"a__secret", "b__two"} {
			if _, err := call(t.Context(), session, tool); err == nil {
				t.Errorf("%s called %s", name, tool)
			}
		}
		if prompts, err := session.ListPrompts(t.Context(), nil); err == nil && len(prompts.Prompts) > 0 {
			t.Errorf("%s sees prompts", name)
		}
	}
}

func TestCallOfAToolThatWasNotGrantedIsLogged(t *testing.T) {
	f := newFront(t, mcpConfig("a"), agentConfig("echo", "a/one"))
	var logged bytes.Buffer
	f.agent("echo").log = hclog.New(&hclog.LoggerOptions{Output: &logged})
	f.ready("a", newPlugin(t, newServer("one", "two")))
	agent := newFakeAgent(t, card(), &echoAgent{})
	f.readyAgent("echo", agent)
	if _, err := call(t.Context(), <-agent.tools, "a__two"); err == nil || !strings.Contains(err.Error(), `unknown tool "a__two"`) {
		t.Errorf("error %v", err)
	}
	if !strings.Contains(logged.String(), "a__two") {
		t.Errorf("logged %q", logged.String())
	}
}

func TestCallsOfAgentsGoDeeperUntilTheyAreRefused(t *testing.T) {
	f := newFront(t, mcpConfig("a"), agentConfig("echo", "a/*"))
	depths := make(chan any, 1)
	server := newServer()
	addTool(server, "depth", func(_ context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		depths <- request.Params.Meta[calldepth.Key]
		return text("done"), nil
	})
	f.ready("a", newPlugin(t, server))
	agent := newFakeAgent(t, card(), &echoAgent{})
	f.readyAgent("echo", agent)
	session := <-agent.tools
	for _, test := range []struct {
		meta mcp.Meta
		want any
	}{
		{nil, 1.0},
		{mcp.Meta{calldepth.Key: 1}, 2.0},
		{mcp.Meta{calldepth.Key: calldepth.Max - 1}, float64(calldepth.Max)},
	} {
		if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "a__depth", Meta: test.meta}); err != nil {
			t.Fatal(err)
		}
		if got := <-depths; got != test.want {
			t.Errorf("%v becomes %v, want %v", test.meta, got, test.want)
		}
	}
	_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "a__depth", Meta: mcp.Meta{calldepth.Key: calldepth.Max}})
	if err == nil || !strings.Contains(err.Error(), "more than 8 agents stand before it") {
		t.Errorf("error %v", err)
	}
	deep := say("hello")
	deep.Metadata = map[string]any{calldepth.Key: calldepth.Max + 1}
	if _, err := f.dial("echo").SendMessage(t.Context(), deep); err == nil || !strings.Contains(err.Error(), "more than 8 agents") {
		t.Errorf("message: error %v", err)
	}
	for _, err := range f.dial("echo").SendStreamingMessage(t.Context(), deep) {
		if err == nil {
			t.Error("a message that is too deep is streamed")
		}
	}
}

// An agent is asked by the services that it calls, and hears of their progress and
// of other tools, as any client.
func TestAgentIsAClientOfItsTools(t *testing.T) {
	f := newFront(t, mcpConfig("a"), agentConfig("echo", "a/*"))
	server := newTalker("a", nil)
	addTool(server, "work", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("done"), req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: 1})
	})
	f.ready("a", newPlugin(t, server))
	heard := make(chan string, 10)
	agent := newFakeAgent(t, card(), &echoAgent{})
	agent.options = &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"said": "to " + req.Params.Message}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			heard <- fmt.Sprint("progress ", req.Params.ProgressToken)
		},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { heard <- "changed" },
	}
	f.readyAgent("echo", agent)
	session := <-agent.tools
	if got, err := call(t.Context(), session, "a__ask"); got != "to a" || err != nil {
		t.Errorf("%q, error %v", got, err)
	}
	params := &mcp.CallToolParams{Name: "a__work"}
	params.SetProgressToken("mine")
	if _, err := session.CallTool(t.Context(), params); err != nil {
		t.Error(err)
	}
	f.Configure([]config.Service{mcpConfig("a"), agentConfig("echo", "a/work")})
	for _, want := range []string{"progress mine", "changed"} {
		if got := <-heard; got != want {
			t.Errorf("heard %q, want %q", got, want)
		}
	}
}

func TestAgentKeepsItsToolsWhileItFinishes(t *testing.T) {
	f := newFront(t, mcpConfig("a"), agentConfig("echo", "a/*"))
	f.ready("a", newPlugin(t, newServer("one")))
	first := newFakeAgent(t, card(), &echoAgent{})
	f.readyAgent("echo", first)
	session := <-first.tools
	f.enterAgent("echo", supervise.Stopping, "restart was asked")
	if got, err := call(t.Context(), session, "a__one"); got != "one" || err != nil {
		t.Errorf("while stopping: result %q, error %v", got, err)
	}
	first.die()
	second := newFakeAgent(t, card(), &echoAgent{})
	f.readyAgent("echo", second)
	if got, err := call(t.Context(), <-second.tools, "a__one"); got != "one" || err != nil {
		t.Errorf("the next instance: result %q, error %v", got, err)
	}
	_ = session.Wait()
}

func TestAgentThatClosesItsToolsGetsThemAgain(t *testing.T) {
	f := newFront(t, mcpConfig("a"), agentConfig("echo", "a/*"))
	f.ready("a", newPlugin(t, newServer("one")))
	agent := newFakeAgent(t, card(), &echoAgent{})
	f.readyAgent("echo", agent)
	if err := (<-agent.tools).Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := call(t.Context(), <-agent.tools, "a__one"); got != "one" || err != nil {
		t.Errorf("result %q, error %v", got, err)
	}
}

func TestRequestToAnAgentIsBounded(t *testing.T) {
	f := newFront(t, agentConfig("echo"))
	f.readyAgent("echo", newFakeAgent(t, card(), &echoAgent{}))
	body := bytes.Repeat([]byte(" "), a2ahttp.MaxRequest+1)
	for _, path := range []string{"/a2a/echo", "/a2a/echo/message:send"} {
		for name, reader := range map[string]io.Reader{
			"of known length":   bytes.NewReader(body),
			"of unknown length": io.MultiReader(bytes.NewReader(body)),
		} {
			t.Run(name+path, func(t *testing.T) {
				response, err := http.Post(f.url+path, "application/json", reader)
				if err != nil {
					return // cut off
				}
				defer response.Body.Close()
				if response.StatusCode != http.StatusRequestEntityTooLarge && response.StatusCode != http.StatusBadRequest {
					t.Errorf("status %s", response.Status)
				}
			})
		}
	}
}

// hugeAgent answers with more than a host wants to hold.
type hugeAgent struct{ echoAgent }

func (*hugeAgent) Execute(_ context.Context, execCtx *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart(strings.Repeat("x", 32<<20))), nil)
	}
}

func TestAnswerOfAnAgentIsBounded(t *testing.T) {
	f := newFront(t, agentConfig("echo"))
	f.readyAgent("echo", newFakeAgent(t, card(), &hugeAgent{}))
	client := f.dial("echo")
	if _, err := client.SendMessage(t.Context(), say("hello")); err == nil || !strings.Contains(err.Error(), "larger than max") {
		t.Errorf("message: error %v", err)
	}
	for _, err := range client.SendStreamingMessage(t.Context(), say("hello")) {
		if err == nil || !strings.Contains(err.Error(), "larger than max") {
			t.Errorf("stream: error %v", err)
		}
	}
}

func TestUnknownStateOfAnAgent(t *testing.T) {
	f := newFront(t, agentConfig("echo"))
	if _, message := rpc(t, f.url+"/a2a/echo", nil, sendHi); !strings.Contains(message, "it is not started yet") {
		t.Errorf("message %q", message)
	}
	f.Watch(supervise.Change{Status: supervise.Status{Service: config.Ref{Kind: config.KindAgent, Name: "unknown"}}})
	f.Watch(supervise.Change{Status: supervise.Status{Service: config.Ref{Kind: config.KindMCP, Name: "unknown"}}})
}
