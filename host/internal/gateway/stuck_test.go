package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/supervise"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// A plugin that asks again and again what nobody can answer, and reads none of the
// refusals, costs little, and its other calls go on.
func TestPluginThatReadsNoRefusalsCostsLittle(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	const asks = 20_000
	goOn := make(chan struct{})
	var refused atomic.Int32
	f.ready("a", unruly(t, func(stream frames, m message) string {
		switch m.Method {
		case "":
			refused.Add(1)
			return ""
		case "tools/call":
			select {
			case <-goOn:
				return `"result":{"content":[]}`
			default:
			}
			nobodys := int64(4711)
			for i := range asks {
				_ = stream.Send(&plughostv1.Frame{Request: &nobodys, Message: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i)})
			}
			send(stream, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, m.ID))
			<-goOn
			return ""
		}
		return oneTool(m)
	}))
	c := f.open(nil)
	before := runtime.NumGoroutine()
	for range 2 {
		if a := c.ask("tools/call", `"name":"x"`); !strings.Contains(a.body, "content") {
			t.Fatalf("%s", a.body)
		}
		if n := runtime.NumGoroutine() - before; n > 100 {
			t.Errorf("%d goroutines more", n)
		}
		select {
		case <-goOn:
		default:
			close(goOn)
		}
	}
	eventually(t, "what waited is read", func() bool { return refused.Load() > 0 })
	if n := refused.Load(); n == asks {
		t.Errorf("%d refusals waited to be read", n)
	}
}

// stuck is a plugin that reads nothing more once it is called.
func stuck(t *testing.T, called chan<- struct{}) *fakeInstance {
	return unruly(t, func(stream frames, m message) string {
		switch m.Method {
		case "tools/call":
			called <- struct{}{}
			<-stream.Context().Done()
			return ""
		}
		return oneTool(m)
	})
}

// large are arguments of more than a stream takes unread.
var large = map[string]any{"x": strings.Repeat("x", 1<<20)}

func TestPluginThatDoesNotReadHoldsUpNothingElseOfAnAgent(t *testing.T) {
	f := newFront(t, mcpConfig("stuck"), mcpConfig("a"), agentConfig("echo", "*/*"))
	called := make(chan struct{}, 1)
	f.ready("stuck", stuck(t, called))
	f.ready("a", newPlugin(t, newServer("one")))
	agent := newFakeAgent(t, card(), &echoAgent{})
	f.readyAgent("echo", agent)
	session := <-agent.tools
	one := func() {
		t.Helper()
		if got, err := call(t.Context(), session, "a__one"); got != "one" || err != nil {
			t.Errorf("%q, error %v", got, err)
		}
	}
	one()
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	for range 3 {
		calls.Go(func() {
			_, _ = session.CallTool(ctx, &mcp.CallToolParams{Name: "stuck__x", Arguments: large})
		})
	}
	<-called
	one()
	cancel() // which the plugin does not read either
	calls.Wait()
	one()
}

// A plugin may take few streams. Who waits for one may leave.
func TestClientMayLeaveWhileAPluginTakesNoMoreStreams(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	f.ready("a", newInstance(t, func(s *grpc.Server) {
		plughostv1.RegisterMCPServer(s, &mcpService{session: func(stream frames) error {
			for {
				frame, err := stream.Recv()
				if err != nil {
					return nil
				}
				var m message
				if err := json.Unmarshal(frame.GetMessage(), &m); err != nil {
					return err
				}
				if m.ID != nil {
					send(stream, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, initialized))
				}
			}
		}})
	}, grpc.MaxConcurrentStreams(2))) // one is for the lists
	f.open(nil)
	var there atomic.Int32
	handler := f.Handler()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		there.Add(1)
		defer there.Add(-1)
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	f.url = web.URL
	for what, header := range map[string]map[string]string{
		rawInitialize: nil,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x",` + rawMeta + `}}`: {
			"Mcp-Protocol-Version": modern, "Mcp-Method": "tools/call", "Mcp-Name": "x",
		},
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{},` + rawMeta + `}}`: {
			"Mcp-Protocol-Version": modern, "Mcp-Method": "subscriptions/listen",
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+"/mcp/a", strings.NewReader(what))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json, text/event-stream")
		for name, value := range header {
			request.Header.Set(name, value)
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			_ = response.Body.Close()
			t.Errorf("%s: status %d", what, response.StatusCode)
		}
		cancel()
	}
	eventually(t, "their requests are over", func() bool { return there.Load() == 0 })
}

// A call that an agent cancels is not made, also while it is found out whose it is.
func TestAgentCancelsACallBeforeItIsKnownWhoseItIs(t *testing.T) {
	f := newFront(t, mcpConfig("a"), mcpConfig("b"), agentConfig("echo", "*/*"))
	f.ready("a", newPlugin(t, newServer("one")))
	var calls atomic.Int32
	listing, list := make(chan struct{}, 1), make(chan struct{})
	const b = `"method":"tools/call","params":{"name":"b__x"}`
	begun, there, last := make(chan struct{}), make(chan struct{}), make(chan string, 1)
	f.change(config.KindAgent, "echo", supervise.Status{State: supervise.Ready}, newInstance(t, func(s *grpc.Server) {
		plughostv1.RegisterHostServer(s, &rawAgent{tools: func(stream frames) error {
			ask := func(id, request string) (answer string, err error) {
				send(stream, `{"jsonrpc":"2.0","id":`+id+`,`+request+`}`)
				for err == nil && !strings.Contains(answer, `"id":`+id+`,`) {
					var frame *plughostv1.Frame
					frame, err = stream.Recv()
					answer = string(frame.GetMessage())
				}
				return answer, err
			}
			send(stream, rawInitialize)
			if _, err := stream.Recv(); err != nil {
				return err
			}
			send(stream, rawInitialized)
			close(begun)
			<-there
			send(stream, `{"jsonrpc":"2.0","id":1,`+b+`}`)
			<-listing
			send(stream, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
			if _, err := ask("2", `"method":"ping"`); err != nil { // the gateway has read the cancellation
				return err
			}
			close(list)
			answer, err := ask("3", b)
			last <- answer
			<-stream.Context().Done() // or the gateway begins another one
			return err
		}})
	}))
	<-begun
	f.enter("a", "starting", "") // so that b's list is read for who needs it alone
	f.ready("b", unruly(t, func(_ frames, m message) string {
		switch m.Method {
		case "initialize":
			return initialized
		case "tools/list":
			listing <- struct{}{}
			<-list
			return listsOneTool
		case "tools/call":
			calls.Add(1)
			return `"result":{"content":[{"type":"text","text":"x"}]}`
		}
		return methodNotFound
	}))
	close(there)
	if got := <-last; !strings.Contains(got, `"text":"x"`) {
		t.Errorf("another call: %s", got)
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls were made, want 1", n)
	}
}

// rawAgent is an agent that handles the stream of its tools itself.
type rawAgent struct {
	plughostv1.UnimplementedHostServer
	tools func(frames) error
}

func (r *rawAgent) Tools(stream frames) error { return r.tools(stream) }

// An agent has as many calls in flight as the limits say, and the rest are refused.
func TestCallsInFlightOfAnAgentAreBounded(t *testing.T) {
	f := newLimitedFront(t, config.GatewayLimits{Requests: 10}, mcpConfig("a"), agentConfig("echo", "a/*"))
	answer := make(chan struct{})
	f.ready("a", unruly(t, func(_ frames, m message) string {
		switch m.Method {
		case "tools/call":
			<-answer
			return `"result":{"content":[]}`
		}
		return oneTool(m)
	}))
	answers := make(chan string, 100)
	more := make(chan struct{})
	instance := newInstance(t, func(s *grpc.Server) {
		plughostv1.RegisterHostServer(s, &rawAgent{tools: func(stream frames) error {
			ask := func(first, n int) {
				for i := range n {
					send(stream, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"a__x"}}`, first+i))
				}
			}
			send(stream, rawInitialize)
			if _, err := stream.Recv(); err != nil {
				return err
			}
			send(stream, rawInitialized)
			ask(0, 100)
			go func() {
				<-more
				ask(100, 1)
			}()
			for {
				frame, err := stream.Recv()
				if err != nil {
					return nil
				}
				answers <- string(frame.GetMessage())
			}
		}})
	})
	f.change(config.KindAgent, "echo", supervise.Status{State: supervise.Ready}, instance)
	for range 90 {
		if got := <-answers; !strings.Contains(got, "-32000") || !strings.Contains(got, "too many calls") {
			t.Errorf("comes %s", got)
		}
	}
	close(answer)
	for range 10 {
		if got := <-answers; !strings.Contains(got, "content") {
			t.Errorf("comes %s", got)
		}
	}
	close(more) // there is room again
	if got := <-answers; !strings.Contains(got, "content") {
		t.Errorf("later comes %s", got)
	}
}

// An agent that ends the stream of its tools gets another one soon, whatever its
// calls wait for.
func TestAgentComesBackWhileItsCallWaitsForAService(t *testing.T) {
	f := newFront(t, mcpConfig("mute"), agentConfig("echo", "mute/*"))
	var sessions atomic.Int32
	opening := make(chan struct{})
	f.ready("mute", unruly(t, func(_ frames, m message) string {
		switch m.Method {
		case "initialize":
			if sessions.Add(1) == 1 { // the one for the lists
				return initialized
			}
			close(opening)
			return ""
		case "tools/list":
			return listsOneTool
		}
		return methodNotFound
	}))
	streams := make(chan int, 100)
	var count atomic.Int32
	instance := newInstance(t, func(s *grpc.Server) {
		plughostv1.RegisterHostServer(s, &rawAgent{tools: func(stream frames) error {
			n := int(count.Add(1))
			streams <- n
			if n > 1 {
				<-stream.Context().Done()
				return nil
			}
			send(stream, rawInitialize)
			if _, err := stream.Recv(); err != nil {
				return err
			}
			send(stream, rawInitialized)
			send(stream, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mute__x"}}`)
			<-opening
			return nil
		}})
	})
	f.change(config.KindAgent, "echo", supervise.Status{State: supervise.Ready}, instance)
	<-opening
	left := time.Now()
	for n := range streams {
		if n == 2 {
			break
		}
	}
	if took := time.Since(left); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

// Sessions whose clients listen are opened again side by side: one that takes its
// time holds up no other.
func TestSessionThatIsNotOpenedAgainHoldsUpNoOther(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	first := newPlugin(t, newServer("one"))
	f.ready("a", first)
	for range 2 {
		listens := f.open(nil).send(http.MethodGet, "", nil)
		t.Cleanup(func() { _ = listens.Body.Close() })
	}
	first.die()
	f.enter("a", supervise.Backoff, "it died")
	var asked atomic.Int32
	f.ready("a", unruly(t, func(_ frames, m message) string {
		switch {
		case m.Method != "initialize":
			return methodNotFound
		case m.Params.ClientInfo.Name == "plughost": // for the lists
			return initialized
		}
		asked.Add(1)
		return ""
	}))
	eventually(t, "both sessions are being opened", func() bool { return asked.Load() == 2 })
}

// Those who wait for a plugin to say which revisions it speaks wait once.
func TestPluginThatDoesNotSayItsRevisionsIsWaitedForOnce(t *testing.T) {
	t.Parallel() // it waits for seconds
	f := newFront(t, mcpConfig("a"))
	var asked atomic.Int32
	f.ready("a", unruly(t, func(_ frames, m message) string {
		switch m.Method {
		case "server/discover":
			asked.Add(1)
			return ""
		}
		return oneTool(m)
	}))
	var calls sync.WaitGroup
	for range 3 {
		calls.Go(func() {
			if a := f.alone().callAlone("1", "x"); !strings.Contains(a.body, "which revisions") {
				t.Errorf("%s", a.body)
			}
		})
	}
	calls.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
}
