package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/supervise"
)

func addPrompt(server *mcp.Server, name string) {
	server.AddPrompt(&mcp.Prompt{Name: name}, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Description: name + " " + req.Params.Arguments["who"]}, nil
	})
}

// read answers with a text of its own and the URI that it was asked for.
func read(answer string) mcp.ResourceHandler {
	return func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: req.Params.URI, Text: answer + " " + req.Params.URI}}}, nil
	}
}

func TestNamesAreJoinedAndEachServiceKeepsItsOwn(t *testing.T) {
	f := newFront(t, mcpConfig("a"), mcpConfig("b"))
	for _, name := range []string{"a", "b"} {
		server := newServer("same", "only_"+name)
		addPrompt(server, "greet")
		f.ready(name, newPlugin(t, server))
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			for path, want := range map[string][]string{
				"/mcp":   {"a__only_a", "a__same", "b__only_b", "b__same"},
				"/mcp/a": {"only_a", "same"},
				"/mcp/b": {"only_b", "same"},
			} {
				session := f.connect(path, version, nil)
				expect(t, path, toolNames(t, session), want)
				for _, tool := range want {
					_, own, joined := strings.Cut(tool, "__")
					if !joined {
						own = tool
					}
					if got, err := call(t.Context(), session, tool); got != own || err != nil {
						t.Errorf("%s %s: result %q, error %v", path, tool, got, err)
					}
				}
			}
			session := f.connect("/mcp", version, nil)
			result, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "b__greet", Arguments: map[string]string{"who": "Ada"}})
			if err != nil || result.Description != "greet Ada" {
				t.Errorf("prompt %v, error %v", result, err)
			}
		})
	}
}

func TestFilterHidesToolsFromAllEndpoints(t *testing.T) {
	service := mcpConfig("a")
	service.Tools = config.Tools{Allow: []string{"read*", "dir/*"}, Deny: []string{"*_secret"}}
	f := newFront(t, service)
	f.ready("a", newPlugin(t, newServer("read", "read_secret", "write", "dir/list", "dir/sub/list")))
	for path, prefix := range map[string]string{"/mcp": "a__", "/mcp/a": ""} {
		session := f.connect(path, legacy, nil)
		expect(t, path, toolNames(t, session), []string{prefix + "dir/list", prefix + "dir/sub/list", prefix + "read"})
		for _, hidden := range []string{"write", "read_secret"} {
			if _, err := call(t.Context(), session, prefix+hidden); err == nil {
				t.Errorf("%s: the hidden tool %s was called", path, hidden)
			}
		}
	}
}

func TestResourceOfTwoServicesIsTheFirstOnesWhicheverIsReadyFirst(t *testing.T) {
	const uri, template = "test://same", "test://{id}/same"
	for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		t.Run("ready: "+strings.Join(order, ", "), func(t *testing.T) {
			f := newFront(t, mcpConfig("a"), mcpConfig("b"))
			session := f.connect("/mcp", legacy, nil)
			readAll := func(session *mcp.ClientSession) (got []string) {
				t.Helper()
				for _, uri := range []string{uri, "test://1/same"} {
					result, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
					if err != nil {
						got = append(got, "error")
						continue
					}
					got = append(got, result.Contents[0].Text)
				}
				return got
			}
			for _, name := range order {
				server := mcp.NewServer(&mcp.Implementation{Name: name}, nil)
				server.AddResource(&mcp.Resource{Name: name, URI: uri}, read(name))
				server.AddResourceTemplate(&mcp.ResourceTemplate{Name: name, URITemplate: template}, read(name))
				f.ready(name, newPlugin(t, server))
			}
			expect(t, "joined", readAll(session), []string{"a " + uri, "a test://1/same"})
			expect(t, "of b", readAll(f.connect("/mcp/b", legacy, nil)), []string{"b " + uri, "b test://1/same"})

			f.enter("a", supervise.Stopped, "")
			expect(t, "joined, after a was stopped", readAll(session), []string{"b " + uri, "b test://1/same"})
			f.enter("b", supervise.Stopped, "")
			expect(t, "joined, after both were stopped", readAll(session), []string{"error", "error"})
		})
	}
}

func TestChangedListReachesClientsOfAllViews(t *testing.T) {
	f := newFront(t, mcpConfig("a"), mcpConfig("other"), agentConfig("agent", "a/*"))
	server := newServer("one")
	f.ready("a", newPlugin(t, server))
	f.ready("other", newPlugin(t, newServer("x")))
	agent := newFakeAgent(t, card(), &echoAgent{})
	f.readyAgent("agent", agent)
	agentTools := <-agent.tools

	var mu sync.Mutex
	changed := make(map[string]int)
	listen := func(path, version string) *mcp.ClientSession {
		return f.connect(path, version, &mcp.ClientOptions{
			ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
				mu.Lock()
				defer mu.Unlock()
				changed[path+" "+version]++
			},
		})
	}
	joined := listen("/mcp", legacy)
	listen("/mcp", modern)
	own := listen("/mcp/a", legacy)
	listen("/mcp/a", modern)
	listen("/mcp/other", legacy)

	addTool(server, "two", nil)
	eventually(t, "the change reaches all clients", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return changed["/mcp "+legacy] > 0 && changed["/mcp "+modern] > 0 &&
			changed["/mcp/a "+legacy] > 0 && changed["/mcp/a "+modern] > 0
	})
	expect(t, "joined", toolNames(t, joined), []string{"a__one", "a__two", "other__x"})
	expect(t, "own", toolNames(t, own), []string{"one", "two"})
	expect(t, "the agent's", toolNames(t, agentTools), []string{"a__one", "a__two"})

	server.RemoveTools("one")
	eventually(t, "the tool is gone", func() bool { return len(toolNames(t, own)) == 1 })
	mu.Lock()
	defer mu.Unlock()
	for client, n := range changed {
		if n > 2 {
			t.Errorf("%s was told %d times of 2 changes", client, n)
		}
	}
	if n := changed["/mcp/other "+legacy]; n > 0 {
		t.Errorf("the client of another service was told %d times", n)
	}
}

// codeUnavailable is of a call that a service cannot take.
const codeUnavailable = -32000

// unavailableError checks that a call failed with the gateway's own error.
func unavailableError(t *testing.T, err error, want string) {
	t.Helper()
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) || wire.Code != codeUnavailable || !strings.Contains(wire.Message, want) {
		t.Errorf("error %v, want one of code %d that says %q", err, codeUnavailable, want)
	}
}

func TestPluginThatDiesFailsItsCallsAndComesBack(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			f := newFront(t, mcpConfig("a"), mcpConfig("other"))
			var calls atomic.Int32
			started := make(chan struct{}, 1)
			newHanging := func() *fakeInstance {
				server := newServer("one", "two")
				addTool(server, "hang", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					calls.Add(1)
					started <- struct{}{}
					<-ctx.Done()
					return nil, ctx.Err()
				})
				return newPlugin(t, server)
			}
			first := newHanging()
			f.ready("a", first)
			f.ready("other", newPlugin(t, newServer("x")))
			changed := make(chan struct{}, 100)
			session := f.connect("/mcp", version, &mcp.ClientOptions{
				ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
			})
			before := toolNames(t, session)

			failed := make(chan error, 1)
			go func() {
				_, err := call(context.Background(), session, "a__hang")
				failed <- err
			}()
			<-started
			first.die() // and the supervisor has not noticed yet
			unavailableError(t, <-failed, "service a ended during the call, which is not repeated")

			f.enter("a", supervise.Stopping, "its process ended: exit status 3")
			_, err := call(t.Context(), session, "a__one")
			unavailableError(t, err, "service a cannot be called: it is stopping: its process ended: exit status 3")
			f.change(config.KindMCP, "a", supervise.Status{State: supervise.Backoff, NextTry: time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)}, nil)
			_, err = call(t.Context(), session, "a__one")
			unavailableError(t, err, "it failed and is started again at 03:04:05")
			expect(t, "while it is away", toolNames(t, session), before)
			if got, err := call(t.Context(), session, "other__x"); got != "x" || err != nil {
				t.Errorf("another service meanwhile: result %q, error %v", got, err)
			}

			f.enter("a", supervise.Starting, "")
			f.ready("a", newHanging())
			expect(t, "after it is back", toolNames(t, session), before)
			if got, err := call(t.Context(), session, "a__one"); got != "one" || err != nil {
				t.Errorf("after it is back: result %q, error %v", got, err)
			}
			if n := calls.Load(); n != 1 {
				t.Errorf("the call was made %d times", n)
			}

			f.enter("a", supervise.Stopped, "")
			eventually(t, "the client is told of the stop", func() bool { return len(changed) > 0 })
			expect(t, "after it was stopped", toolNames(t, session), []string{"other__x"})
			if n := len(changed); n != 1 {
				t.Errorf("the client was told %d times of 1 change", n)
			}
		})
	}
}

func TestFailedServiceSaysWhy(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	plugin := newPlugin(t, newServer("one"))
	f.ready("a", plugin)
	session := f.connect("/mcp/a", legacy, nil)
	for _, test := range []struct {
		state supervise.State
		cause string
		want  string
	}{
		{supervise.Failed, "gave up after 3 failures", "it failed: gave up after 3 failures"},
		{supervise.Waiting, "waits for mcp.b, which is failed", "it is waiting: waits for mcp.b"},
		{supervise.Starting, "", "it is starting"},
	} {
		f.enter("a", test.state, test.cause)
		_, err := call(t.Context(), session, "one")
		unavailableError(t, err, "service a cannot be called: "+test.want)
	}
}

func TestCallInFlightFinishesWhileItsServiceStops(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	started, finish := make(chan struct{}), make(chan struct{})
	server := newServer("one")
	addTool(server, "slow", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		close(started)
		<-finish
		_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: 1})
		return text("finished"), nil
	})
	f.ready("a", newPlugin(t, server))
	progress := make(chan any, 1)
	session := f.connect("/mcp/a", legacy, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			progress <- req.Params.ProgressToken
		},
	})
	result := make(chan string, 1)
	go func() {
		params := &mcp.CallToolParams{Name: "slow"}
		params.SetProgressToken("t")
		got, err := session.CallTool(context.Background(), params)
		if err != nil {
			result <- err.Error()
			return
		}
		result <- got.Content[0].(*mcp.TextContent).Text
	}()
	<-started
	f.enter("a", supervise.Stopping, "stop was asked")
	_, err := call(t.Context(), session, "one")
	unavailableError(t, err, "it is stopping: stop was asked")
	close(finish)
	if got := <-result; got != "finished" {
		t.Errorf("result %q", got)
	}
	if got := <-progress; got != "t" {
		t.Errorf("progress token %v", got)
	}
}

func TestProgressComesBackUnderTheClientsOwnToken(t *testing.T) {
	const steps = 20
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			f := newFront(t, mcpConfig("a"))
			server := newServer()
			var together sync.WaitGroup
			together.Add(2)
			addTool(server, "count", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				together.Done()
				together.Wait() // both calls are in flight
				var args struct{ Who string }
				if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
					return nil, err
				}
				for i := range steps {
					err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
						ProgressToken: req.Params.GetProgressToken(), Progress: float64(i), Total: steps, Message: args.Who,
					})
					if err != nil {
						return nil, err
					}
				}
				return text(args.Who), nil
			})
			f.ready("a", newPlugin(t, server))

			var clients sync.WaitGroup
			for _, who := range []string{"Ada", "Bob"} {
				progress := make(chan *mcp.ProgressNotificationParams, 2*steps)
				session := f.connect("/mcp", version, &mcp.ClientOptions{
					ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
						progress <- req.Params
					},
				})
				clients.Go(func() {
					params := &mcp.CallToolParams{Name: "a__count", Arguments: map[string]any{"who": who}}
					params.SetProgressToken("the same")
					if _, err := session.CallTool(t.Context(), params); err != nil {
						t.Error(err)
						return
					}
					for i := range steps {
						if got := <-progress; got.Message != who || got.Progress != float64(i) || got.Total != steps || got.ProgressToken != "the same" {
							t.Errorf("%s got %+v as number %d", who, got, i)
						}
					}
					if len(progress) > 0 {
						t.Errorf("%s got %d notifications too many", who, len(progress))
					}
				})
			}
			clients.Wait()
		})
	}
}

// Progress comes on the stream of the call's own answer, so a client that
// opens no other gets it too.
func TestProgressNeedsNoStreamOfItsOwn(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	server := newServer()
	addTool(server, "work", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("done"), req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: req.Params.GetProgressToken(), Progress: 1,
		})
	})
	f.ready("a", newPlugin(t, server))
	progress := make(chan any, 1)
	client := mcp.NewClient(&mcp.Implementation{Name: "client"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			progress <- req.Params.ProgressToken
		},
	})
	session, err := client.Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: f.url + "/mcp/a", DisableStandaloneSSE: true},
		&mcp.ClientSessionOptions{ProtocolVersion: legacy})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	params := &mcp.CallToolParams{Name: "work"}
	params.SetProgressToken(7)
	if _, err := session.CallTool(t.Context(), params); err != nil {
		t.Fatal(err)
	}
	if got := <-progress; got != 7.0 {
		t.Errorf("token %v, want 7", got)
	}
}

func TestCancellationReachesThePlugin(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			f := newFront(t, mcpConfig("a"))
			started, canceled := make(chan struct{}), make(chan struct{})
			server := newServer("one")
			addTool(server, "hang", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				close(started)
				<-ctx.Done()
				close(canceled)
				return nil, ctx.Err()
			})
			f.ready("a", newPlugin(t, server))
			session := f.connect("/mcp", version, nil)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-started
				cancel()
			}()
			if _, err := call(ctx, session, "a__hang"); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want canceled", err)
			}
			<-canceled
			if got, err := call(t.Context(), session, "a__one"); got != "one" || err != nil {
				t.Errorf("a later call: result %q, error %v", got, err)
			}
		})
	}
}

func TestErrorsOfAPluginStayAsTheyAre(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	server := newServer()
	addTool(server, "error", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, &jsonrpc.Error{Code: 1234, Message: "no such luck", Data: json.RawMessage(`{"why":"7"}`)}
	})
	addTool(server, "result", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		result := text("it went wrong")
		result.IsError = true
		result.StructuredContent = map[string]any{"n": 1.0}
		return result, nil
	})
	f.ready("a", newPlugin(t, server))
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			session := f.connect("/mcp", version, nil)
			_, err := call(t.Context(), session, "a__error")
			var wire *jsonrpc.Error
			if !errors.As(err, &wire) || wire.Code != 1234 || wire.Message != "no such luck" || string(wire.Data) != `{"why":"7"}` {
				t.Errorf("error %v", err)
			}
			result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "a__result"})
			if err != nil {
				t.Fatal(err)
			}
			if !result.IsError || fmt.Sprint(result.StructuredContent) != "map[n:1]" {
				t.Errorf("result %+v", result)
			}
		})
	}
}

func TestMetaPasses(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	got := make(chan mcp.Meta, 1)
	server := newServer()
	addTool(server, "meta", func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		got <- req.Params.Meta
		result := text("")
		result.Meta = mcp.Meta{"example.com/back": "b"}
		return result, nil
	})
	f.ready("a", newPlugin(t, server))
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			session := f.connect("/mcp", version, nil)
			params := &mcp.CallToolParams{Name: "a__meta", Meta: mcp.Meta{"example.com/trace": "t", "traceparent": "00-1"}}
			params.SetProgressToken("mine")
			result, err := session.CallTool(t.Context(), params)
			if err != nil {
				t.Fatal(err)
			}
			if result.Meta["example.com/back"] != "b" {
				t.Errorf("the result's _meta is %v", result.Meta)
			}
			meta := <-got
			if meta["example.com/trace"] != "t" || meta["traceparent"] != "00-1" {
				t.Errorf("the plugin got %v", meta)
			}
			if token := meta["progressToken"]; token != "mine" {
				t.Errorf("the plugin got the token %v", token)
			}
		})
	}
}

func TestLargeResultsAndManyTools(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	const tools = 2500 // more than a page of the SDK
	server := newServer()
	for i := range tools {
		addTool(server, fmt.Sprint("tool", i), nil)
	}
	large := strings.Repeat("x", 5<<20)
	addTool(server, "large", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text(large), nil })
	f.ready("a", newPlugin(t, server))
	session := f.connect("/mcp", legacy, nil)
	if n := len(toolNames(t, session)); n != tools+1 {
		t.Errorf("%d tools, want %d", n, tools+1)
	}
	if got, err := call(t.Context(), session, "a__large"); got != large || err != nil {
		t.Errorf("%d bytes, error %v", len(got), err)
	}
}

// A client that asks for progress and does not read it delays neither the
// plugin nor other clients.
func TestClientThatDoesNotReadHoldsUpNobody(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	server := newServer("one")
	flooded := make(chan error, 1)
	addTool(server, "flood", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		message := strings.Repeat("x", 64<<10)
		var err error
		for i := range 80 {
			err = errors.Join(err, req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: req.Params.GetProgressToken(), Progress: float64(i), Message: message,
			}))
		}
		flooded <- err
		return text("done"), nil
	})
	f.ready("a", newPlugin(t, server))

	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"flood","_meta":{"progressToken":"p",` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{}}}}`
	if _, err := fmt.Fprintf(conn, "POST /mcp/a HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Accept: application/json, text/event-stream\r\nMcp-Protocol-Version: %s\r\nMcp-Method: tools/call\r\nMcp-Name: flood\r\n"+
		"Content-Length: %d\r\n\r\n%s", modern, len(body), body); err != nil {
		t.Fatal(err)
	}
	if err := <-flooded; err != nil {
		t.Error(err)
	}

	progress := make(chan any, 1)
	addTool(server, "work", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("worked"), req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken()})
	})
	session := f.connect("/mcp/a", legacy, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			progress <- req.Params.ProgressToken
		},
	})
	params := &mcp.CallToolParams{Name: "work"}
	params.SetProgressToken("mine")
	eventually(t, "the new tool is shown", func() bool { return slices.Contains(toolNames(t, session), "work") })
	if _, err := session.CallTool(t.Context(), params); err != nil {
		t.Fatal(err)
	}
	if got := <-progress; got != "mine" {
		t.Errorf("progress token %v", got)
	}
}
