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
	"google.golang.org/grpc"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/supervise"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// message is what an unruly plugin reads of a request.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		TaskID     string `json:"taskId"`
		Cursor     string `json:"cursor"`
		ClientInfo struct {
			Name string `json:"name"`
		} `json:"clientInfo"`
	} `json:"params"`
}

// unruly makes a plugin that answers each request as it likes: with the JSON of
// a result or an error member, or, for "", not at all.
func unruly(t *testing.T, answer func(frames, message) string) *fakeInstance {
	t.Helper()
	return newRawPlugin(t, func(stream frames) error {
		for {
			frame, err := stream.Recv()
			if err != nil {
				return nil
			}
			var m message
			if err := json.Unmarshal(frame.GetMessage(), &m); err != nil {
				return err
			}
			if member := answer(stream, m); member != "" && m.ID != nil {
				send(stream, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, member))
			}
		}
	})
}

func send(stream frames, text string) {
	_ = stream.Send(&plughostv1.Frame{Message: []byte(text)})
}

const (
	initialized = `"result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"x","version":"1"},` +
		`"capabilities":{"tools":{},"prompts":{},"resources":{}}}`
	methodNotFound = `"error":{"code":-32601,"message":"method not found"}`
	listsOneTool   = `"result":{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`
)

// oneTool is what a plugin answers that has the tool x, but for calls of it.
func oneTool(m message) string {
	switch m.Method {
	case "initialize":
		return initialized
	case "tools/list":
		return listsOneTool
	default:
		return methodNotFound
	}
}

func TestWhatCannotBeShownIsLeftOut(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	f.ready("a", unruly(t, func(_ frames, m message) string {
		switch m.Method {
		case "initialize":
			return initialized
		case "tools/list":
			return `"result":{"tools":[{"name":"none"},{"name":"array","inputSchema":{"type":"array"}},` +
				`{"name":"output","inputSchema":{"type":"object"},"outputSchema":7},{"name":"good","inputSchema":{"type":"object"}},` +
				`{"name":"good","inputSchema":{"type":"object"}},{"name":"","inputSchema":{"type":"object"}}]}`
		case "prompts/list":
			return `"result":{"prompts":[{"name":"p"}]}`
		case "resources/list":
			return `"result":{"resources":[{"uri":"%zz","name":"bad"},{"uri":"test://good","name":"good"}]}`
		case "resources/templates/list":
			return `"result":{"resourceTemplates":[{"uriTemplate":"test://{","name":"bad"},{"uriTemplate":"test://{x}","name":"good"}]}`
		}
		return methodNotFound
	}))
	session := f.connect("/mcp", legacy, nil)
	names := toolNames(t, session)
	found := false
	for _, name := range names {
		found = found || name == "a__good"
		if name == "a__none" || name == "a__array" {
			t.Errorf("the tool %s is shown", name)
		}
	}
	if !found {
		t.Errorf("tools %q", names)
	}
	resources, err := session.ListResources(t.Context(), nil)
	if err != nil || len(resources.Resources) != 1 {
		t.Errorf("resources %v, error %v", resources, err)
	}
	templates, err := session.ListResourceTemplates(t.Context(), nil)
	if err != nil || len(templates.ResourceTemplates) != 1 {
		t.Errorf("templates %v, error %v", templates, err)
	}
}

func TestListThatAPluginDoesNotHaveIsEmpty(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	f.ready("a", unruly(t, func(_ frames, m message) string {
		switch m.Method {
		case "initialize":
			return initialized
		case "tools/list":
			return `"result":{"tools":[{"name":"good","inputSchema":{"type":"object"}}]}`
		}
		return methodNotFound
	}))
	expect(t, "tools", toolNames(t, f.connect("/mcp", legacy, nil)), []string{"a__good"})
}

// What a plugin cannot list now it may list later, and clients hear of it.
func TestListThatCouldNotBeReadIsReadAgain(t *testing.T) {
	t.Parallel() // it waits for seconds
	f := newFront(t, mcpConfig("a"))
	var readings atomic.Int32
	f.ready("a", unruly(t, func(_ frames, m message) string {
		switch m.Method {
		case "initialize":
			return initialized
		case "tools/list":
			if readings.Add(1) == 1 {
				return `"error":{"code":-32603,"message":"not yet"}`
			}
			return `"result":{"tools":[{"name":"good","inputSchema":{"type":"object"}}]}`
		}
		return methodNotFound
	}))
	changed := make(chan struct{}, 10)
	session := f.connect("/mcp", legacy, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
	})
	expect(t, "tools at first", toolNames(t, session), nil)
	<-changed
	expect(t, "tools then", toolNames(t, session), []string{"a__good"})
}

func TestPagesThatNeverEndAreCutOff(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	var pages atomic.Int64
	f.ready("a", unruly(t, func(_ frames, m message) string {
		switch m.Method {
		case "initialize":
			return initialized
		case "tools/list":
			page := `"result":{"nextCursor":"again","tools":[`
			for i := range 1000 {
				if i > 0 {
					page += ","
				}
				page += fmt.Sprintf(`{"name":"t%d-%d","inputSchema":{"type":"object"}}`, pages.Load(), i)
			}
			pages.Add(1)
			return page + `]}`
		}
		return methodNotFound
	}))
	if n := pages.Load(); n > 2 {
		t.Errorf("%d pages were read", n)
	}
	if names := toolNames(t, f.connect("/mcp", legacy, nil)); len(names) > 0 {
		t.Errorf("%d tools are shown of a list without an end", len(names))
	}
}

func TestFloodOfChangesIsReadOnceMore(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	var readings atomic.Int32
	f.ready("a", unruly(t, func(stream frames, m message) string {
		switch m.Method {
		case "initialize":
			return initialized
		case "tools/list":
			if readings.Add(1) == 1 {
				for range 1000 {
					send(stream, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				}
			}
			return `"result":{"tools":[]}`
		case "tools/call":
			return `"result":{"content":[]}`
		}
		return methodNotFound
	}))
	// They came before the answer to the first reading, which was running.
	eventually(t, "the lists are read again", func() bool { return readings.Load() > 1 })
	expect(t, "tools", toolNames(t, f.connect("/mcp", legacy, nil)), nil)
	if n := readings.Load(); n > 2 {
		t.Errorf("the lists were read %d times", n)
	}
}

func TestChangedListBeforeAFailedHandshakeIsHarmless(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	err := f.Introduce(t.Context(), config.Ref{Kind: config.KindMCP, Name: "a"}, unruly(t, func(stream frames, m message) string {
		send(stream, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		return `"error":{"code":-32603,"message":"not today"}`
	}))
	if err == nil || !strings.Contains(err.Error(), "not today") {
		t.Errorf("error %v", err)
	}
}

func TestSessionThatThePluginEndsIsOpenedAgain(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	var sessions, calls atomic.Int32
	f.ready("a", unruly(t, func(stream frames, m message) string {
		switch m.Method {
		case "initialize":
			sessions.Add(1)
			return initialized
		case "tools/list":
			return `"result":{"tools":[{"name":"break","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			if calls.Add(1) == 1 {
				send(stream, "this is no JSON")
				return ""
			}
			return `"result":{"content":[{"type":"text","text":"whole"}]}`
		}
		return methodNotFound
	}))
	session := f.connect("/mcp", legacy, nil)
	_, err := call(t.Context(), session, "a__break")
	unavailableError(t, err, "ended during the call")
	eventually(t, "a call gets through", func() bool {
		got, err := call(t.Context(), session, "a__break")
		return got == "whole" && err == nil
	})
	if n := sessions.Load(); n != 3 { // one to read the lists
		t.Errorf("%d sessions, want 3", n)
	}
}

// A client without a session works before a plugin that knows only sessions.
func TestPluginThatKnowsOnlySessions(t *testing.T) {
	atEach(t, func(t *testing.T, at endpoint) {
		f := newFront(t, mcpConfig("a"))
		var begun sync.Map // by stream
		f.ready("a", unruly(t, func(stream frames, m message) string {
			_, has := begun.Load(stream)
			switch {
			case m.Method == "notifications/initialized":
				begun.Store(stream, true)
				return ""
			case m.Method == "initialize":
				return initialized
			case !has:
				return `"error":{"code":-32600,"message":"begin with initialize"}`
			case m.Method == "tools/list":
				return `"result":{"tools":[{"name":"one","inputSchema":{"type":"object"}}]}`
			case m.Method == "tools/call":
				return `"result":{"content":[{"type":"text","text":"one"}]}`
			}
			return methodNotFound
		}))
		c := f.aloneAt(at.path)
		for range 2 {
			if a := c.callAlone(`7`, at.prefix+"one"); !strings.Contains(a.body, `"text":"one"`) || !strings.Contains(a.body, `"resultType":"complete"`) {
				t.Errorf("a call: status %d, %s", a.status, a.body)
			}
		}
		if a := c.ask("tools/list", ""); !strings.Contains(a.body, `"name":"`+at.prefix+`one"`) || !strings.Contains(a.body, `"ttlMs":0`) {
			t.Errorf("the list: status %d, %s", a.status, a.body)
		}
		for _, version := range versions[:2] {
			session := f.connect(at.path, version, nil)
			if got, err := call(t.Context(), session, at.prefix+"one"); got != "one" || err != nil {
				t.Errorf("%s: %q, error %v", version, got, err)
			}
		}
		session := f.connect(at.path, "", nil) // as it finds out itself
		if got, err := call(t.Context(), session, at.prefix+"one"); got != "one" || err != nil {
			t.Errorf("%s: %q, error %v", session.InitializeResult().ProtocolVersion, got, err)
		}
	})
}

// A plugin that does not even answer holds up neither others nor the host's end.
func TestPluginThatNeverAnswersHoldsUpNobody(t *testing.T) {
	noGoroutineStays(t)
	f := newFront(t, mcpConfig("mute"), mcpConfig("a"))
	asked := make(chan struct{})
	mute := unruly(t, func(frames, message) string {
		close(asked)
		return ""
	})
	f.change("mcp", "mute", supervise.Status{State: supervise.Ready}, mute)
	<-asked
	f.ready("a", newPlugin(t, newServer("one")))
	session := f.connect("/mcp", legacy, nil)
	if got, err := call(t.Context(), session, "a__one"); got != "one" || err != nil {
		t.Errorf("result %q, error %v", got, err)
	}
	if _, err := call(t.Context(), session, "mute__x"); err == nil {
		t.Error("a tool was called that nobody knows of")
	}
	_ = session.Close()
	f.Close()
}

// Its stop comes while its session is being opened: the session is given up,
// and not used when it is there after all.
func TestStopWhileTheSessionIsBeingOpened(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	asked, answer := make(chan struct{}), make(chan struct{})
	f.change("mcp", "a", supervise.Status{State: supervise.Ready}, unruly(t, func(_ frames, m message) string {
		if m.Method == "initialize" {
			close(asked)
			<-answer
			return initialized
		}
		return methodNotFound
	}))
	<-asked
	f.change("mcp", "a", supervise.Status{State: supervise.Stopping, Cause: "stop was asked"}, nil)
	close(answer)
	c := &rawClient{t: t, url: f.url + "/mcp/a"}
	if a := c.post(rawInitialize); !strings.Contains(a.body, "it is stopping: stop was asked") {
		t.Errorf("%s", a.body)
	}
}

func TestPluginThatDiesWhileAnotherHoldsItsConnection(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	started := make(chan struct{})
	plugin := unruly(t, func(_ frames, m message) string {
		switch m.Method {
		case "initialize":
			return initialized
		case "tools/list":
			return `"result":{"tools":[{"name":"hang","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			close(started)
			return ""
		}
		return methodNotFound
	})
	f.ready("a", plugin)
	session := f.connect("/mcp/a", legacy, nil)
	failed := make(chan error, 1)
	go func() {
		_, err := call(context.Background(), session, "hang")
		failed <- err
	}()
	<-started
	plugin.once.Do(func() { close(plugin.exited) }) // the connection stays
	unavailableError(t, <-failed, "ended during the call")
	plugin.server.Stop()
}

// What a plugin asks before it answers initialize the client can answer only in
// the session, so it has to know its id by then. That is worth nothing if there
// is none in the end.
func TestPluginThatAsksBeforeItAnswersInitialize(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	var fails atomic.Bool
	var first sync.Map // initialize's id, by stream
	f.ready("a", unruly(t, func(stream frames, m message) string {
		switch m.Method {
		case "initialize":
			first.Store(stream, m.ID)
			send(stream, `{"jsonrpc":"2.0","id":"question","method":"ping"}`)
			return ""
		case "": // the answer
			member := initialized
			if fails.Load() {
				member = methodNotFound
			}
			id, _ := first.Load(stream)
			send(stream, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, id, member))
			return ""
		}
		return methodNotFound
	}))
	for _, failing := range []bool{false, true} {
		fails.Store(failing)
		c := &rawClient{t: t, url: f.url + "/mcp/a", header: map[string]string{}}
		response := c.send(http.MethodPost, rawInitialize, nil)
		defer response.Body.Close()
		c.header["Mcp-Session-Id"] = response.Header.Get("Mcp-Session-Id")
		next := eventsOf(response.Body)
		var question message
		if err := json.Unmarshal([]byte(next()), &question); err != nil || question.Method != "ping" {
			t.Fatalf("first comes %+v, error %v", question, err)
		}
		if a := c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, question.ID)); a.status != http.StatusAccepted {
			t.Fatalf("the answer: status %d, %s", a.status, a.body)
		}
		if got := next(); strings.Contains(got, "protocolVersion") == failing {
			t.Errorf("then comes %s", got)
		}
		if got := next(); got != "the end" {
			t.Errorf("at last comes %s", got)
		}
		if a := c.post(rawInitialized); (a.status == http.StatusAccepted) == failing {
			t.Errorf("it fails: %v; and then: status %d", failing, a.status)
		}
	}
}

// toolsStream is an agent that handles the stream of its tools itself.
type toolsStream struct {
	plughostv1.UnimplementedHostServer
	serve func(frames) error
}

func (s *toolsStream) Tools(stream frames) error { return s.serve(stream) }

func TestAgentThatCallsBeforeItInitializesIsRefused(t *testing.T) {
	f := newFront(t, mcpConfig("a"), agentConfig("hasty", "a/*"))
	f.ready("a", newPlugin(t, newServer("one")))
	answers := make(chan string, 1)
	agent := newInstance(t, func(s *grpc.Server) {
		plughostv1.RegisterHostServer(s, &toolsStream{serve: func(stream frames) error {
			send(stream, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__one"}}`)
			frame, err := stream.Recv()
			if err != nil {
				return err
			}
			answers <- string(frame.GetMessage())
			<-stream.Context().Done()
			return nil
		}})
	})
	f.change(config.KindAgent, "hasty", supervise.Status{State: supervise.Ready}, agent)
	if got := <-answers; !strings.Contains(got, "not initialized") {
		t.Errorf("%s", got)
	}
}

// A plugin may end a session's stream and live on. Who only listens does not see
// that, and gets another one.
func TestListenerOutlivesAStreamThatThePluginEnds(t *testing.T) {
	t.Parallel() // it waits for seconds
	atEach(t, func(t *testing.T, at endpoint) {
		t.Parallel()
		f := newFront(t, mcpConfig("a"))
		subscribed, end := make(chan struct{}, 2), make(chan struct{})
		var once sync.Once
		f.ready("a", newRawPlugin(t, func(stream frames) error {
			var ended <-chan struct{}
			reads := make(chan *plughostv1.Frame)
			go func() {
				defer close(reads)
				for frame, err := stream.Recv(); err == nil; frame, err = stream.Recv() {
					reads <- frame
				}
			}()
			for {
				select {
				case frame, more := <-reads:
					if !more {
						return nil
					}
					var m message
					if err := json.Unmarshal(frame.GetMessage(), &m); err != nil {
						return err
					}
					answer := methodNotFound
					switch m.Method {
					case "initialize":
						answer = strings.Replace(initialized, `"resources":{}`, `"resources":{"subscribe":true}`, 1)
					case "resources/list":
						answer = `"result":{"resources":[{"uri":"test://r","name":"r"}]}`
					case "resources/subscribe":
						answer = `"result":{}`
						once.Do(func() { ended = end })
						if ended == nil {
							send(stream, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://r"}}`)
						}
						subscribed <- struct{}{}
					}
					if m.ID != nil {
						send(stream, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, answer))
					}
				case <-ended:
					go func() {
						for range reads {
						}
					}()
					return nil
				}
			}
		}))
		c := f.openAt(at.path, nil)
		if a := c.ask("resources/subscribe", `"uri":"test://r"`); !strings.Contains(a.body, `"result"`) {
			t.Fatalf("%s", a.body)
		}
		<-subscribed
		listens := c.send(http.MethodGet, "", nil)
		defer listens.Body.Close()
		close(end)
		<-subscribed
		if got := eventsOf(listens.Body)(); !strings.Contains(got, "test://r") {
			t.Errorf("comes %s", got)
		}
	})
}

// Lists that change all the time are not read all the time.
func TestListsThatAlwaysChangeAreReadNowAndThen(t *testing.T) {
	t.Parallel()
	f := newFront(t, mcpConfig("a"))
	read := make(chan time.Time, 1000)
	f.ready("a", unruly(t, func(stream frames, m message) string {
		switch m.Method {
		case "initialize":
			return initialized
		case "tools/list":
			send(stream, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			select {
			case read <- time.Now():
			default:
			}
			return `"result":{"tools":[]}`
		}
		return methodNotFound
	}))
	began := <-read
	var last time.Time
	for range 5 {
		last = <-read
	}
	if took := last.Sub(began); took < 400*time.Millisecond {
		t.Errorf("5 more readings took no longer than %v", took)
	}
}
