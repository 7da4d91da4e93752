//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/bridge"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
	"github.com/plughost/plughost/shared/tunnel"
	"github.com/plughost/plughost/shared/wire"
)

// patience bounds waits for what must happen.
const patience = 30 * time.Second

// hosted is a bridge with a server behind it.
type hosted struct {
	t    *testing.T
	conn *grpc.ClientConn
	work *shared.Work

	backend backend
}

func host(t *testing.T, isolated bool) *hosted {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return hostTarget(t, bridge.Target{Path: self, Args: []string{self, "serve"}, Isolated: isolated})
}

func hostTarget(t *testing.T, target bridge.Target) *hosted {
	t.Helper()
	h := &hosted{t: t, work: &shared.Work{}}
	backend := newBackend(target, h.work, log.New(t.Output(), "", 0))
	h.backend = backend
	err := backend.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { backend.Stop(context.Background()) })
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	plughostv1.RegisterMCPServer(server, &sessions{backend: backend, work: h.work})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	h.conn, err = grpc.NewClient("passthrough:bridge",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.conn.Close() })
	return h
}

// connect opens a session with the official client, in the last revision that
// has them.
func (h *hosted) connect(options *mcp.ClientOptions) *mcp.ClientSession {
	h.t.Helper()
	return h.connectIn("2025-11-25", options)
}

func (h *hosted) connectIn(revision string, options *mcp.ClientOptions) *mcp.ClientSession {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	stream, err := plughostv1.NewMCPClient(h.conn).Session(ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, options).Connect(h.t.Context(), tunnel.Transport(stream, cancel),
		&mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { session.Close() })
	return session
}

// callTool calls a tool, and returns its text and whether it failed.
func callTool(t *testing.T, session *mcp.ClientSession, tool string) (text string, failed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool})
	if err != nil {
		return err.Error(), true
	}
	return result.Content[0].(*mcp.TextContent).Text, result.IsError
}

func answering(action string) *mcp.ClientOptions {
	return &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: action}, nil
	}}
}

// waiting has a session wait in a call until it is given up, and returns when
// the server has it.
func (h *hosted) waiting(options *mcp.ClientOptions) (session *mcp.ClientSession, giveUp func()) {
	h.t.Helper()
	began := make(chan struct{}, 1)
	options.ProgressNotificationHandler = func(context.Context, *mcp.ProgressNotificationClientRequest) { began <- struct{}{} }
	session = h.connect(options)
	ctx, cancel := context.WithCancel(h.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		params := &mcp.CallToolParams{Name: "wait"}
		params.SetProgressToken("t")
		_, _ = session.CallTool(ctx, params)
	}()
	within(h.t, began, "the call began")
	return session, func() { cancel(); <-ended }
}

func within(t *testing.T, happened <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-happened:
	case <-time.After(patience):
		t.Fatalf("waited in vain until %s", what)
	}
}

// until waits for what nothing announces.
func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !happened() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func TestServerAsksTheClientWhoseCallIsInFlight(t *testing.T) {
	t.Parallel()
	h := host(t, false)
	accepting, declining, mute := h.connect(answering("accept")), h.connect(answering("decline")), h.connect(nil)
	for session, want := range map[*mcp.ClientSession]string{accepting: "accept", declining: "decline"} {
		if got, failed := callTool(t, session, "ask"); failed || got != want {
			t.Errorf("the server was told %q, want %q", got, want)
		}
	}
	if got, failed := callTool(t, mute, "ask"); !failed || !strings.Contains(got, "cannot do that") {
		t.Errorf("a client that cannot be asked gets %q, want why", got)
	}
	_, giveUp := h.waiting(answering("cancel"))
	if got, failed := callTool(t, accepting, "ask"); !failed || !strings.Contains(got, `sessions = "isolated"`) {
		t.Errorf("with two calls in flight the client gets %q, want what to do", got)
	}
	giveUp()
	if text, failed := callTool(t, mute, "cancelled"); failed { // or the next call could overtake it
		t.Fatal(text)
	}
	if got, failed := callTool(t, accepting, "ask"); failed || got != "accept" {
		t.Errorf("when there is one call again the server was told %q", got)
	}
}

func TestRootsAreThoseOfTheCaller(t *testing.T) {
	t.Parallel()
	h := host(t, false)
	client := mcp.ClientOptions{}
	if got, failed := callTool(t, h.connect(&client), "roots"); failed || got != "0" {
		t.Errorf("the server sees %q roots, want those of its caller", got)
	}
}

func TestCancellationReachesTheServer(t *testing.T) {
	t.Parallel()
	h := host(t, false)
	observer := h.connect(nil)
	_, giveUp := h.waiting(&mcp.ClientOptions{})
	giveUp()
	if text, failed := callTool(t, observer, "cancelled"); failed {
		t.Errorf("a call was given up, and the server did not hear of it: %s", text)
	}
	send, receive, leave := h.rawSession()
	send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","arguments":{},"_meta":{"progressToken":1}}}`)
	receive() // its progress
	leave()
	if text, failed := callTool(t, observer, "cancelled"); failed {
		t.Errorf("a session ended, and its call went on: %s", text)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := h.work.Drain(ctx); err != nil {
		t.Errorf("something counts as in flight still: %v", err)
	}
}

// Two clients have a call of the same id in flight, and one cancels its own.
func TestCancellationHitsNoOtherCall(t *testing.T) {
	t.Parallel()
	h := host(t, false)
	send, receive, _ := h.rawSession()
	send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`)
	receive()
	send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{}}}`)
	question, err := wire.Scan([]byte(receive()))
	if err != nil || string(question.Method) != "elicitation/create" {
		t.Fatalf("the client is asked %s, %v", question.Raw, err)
	}
	other, hear, _ := h.rawSession()
	other(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","arguments":{},"_meta":{"progressToken":1}}}`)
	hear() // its progress
	for _, id := range []string{"2", `"1"`, "1"} {
		other(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
	}
	if text, failed := callTool(t, h.connect(nil), "cancelled"); failed {
		t.Errorf("the server did not hear of it: %s", text)
	}
	send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"decline"}}`, question.Bytes(question.ID)))
	if got := receive(); !strings.Contains(got, `"id":1`) || !strings.Contains(got, "decline") {
		t.Errorf("the other call is answered %s", got)
	}
}

// Progress of a call that was answered is of nothing that its client knows.
func TestProgressAfterTheAnswerIsDropped(t *testing.T) {
	t.Parallel()
	send, receive, _ := host(t, false).rawSession()
	for _, token := range []string{`"first"`, `"second"`} { // at which the server speaks of the first again
		send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"late","arguments":{},"_meta":{"progressToken":` + token + `}}}`)
		for _, want := range []string{`"progressToken":` + token, `"result":`} {
			if got := receive(); !strings.Contains(got, want) {
				t.Errorf("the client gets %s, want %s in it", got, want)
			}
		}
	}
}

// heard collects what a client is notified of.
type heard struct {
	mu   sync.Mutex
	what []string
	more chan struct{}
}

func (h *heard) add(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.what = append(h.what, fmt.Sprintf(format, args...))
	select {
	case h.more <- struct{}{}:
	default:
	}
}

func (h *heard) has(what string) bool { return h.times(what) > 0 }

func (h *heard) times(what string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, each := range h.what {
		if each == what {
			n++
		}
	}
	return n
}

// wait waits until the last of what is wanted was heard, and compares all.
func (h *heard) wait(t *testing.T, who string, want ...string) {
	t.Helper()
	deadline := time.After(patience)
	for {
		h.mu.Lock()
		got := slices.Clone(h.what)
		h.mu.Unlock()
		if len(got) >= len(want) {
			if !slices.Equal(got, want) {
				t.Errorf("%s heard %v, want %v", who, got, want)
			}
			return
		}
		select {
		case <-h.more:
		case <-deadline:
			t.Fatalf("%s heard %v, want %v", who, got, want)
		}
	}
}

func (h *heard) options() *mcp.ClientOptions {
	h.more = make(chan struct{}, 1)
	return &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { h.add("tools") },
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { h.add("%s", r.Params.URI) },
		LoggingMessageHandler:  func(_ context.Context, r *mcp.LoggingMessageRequest) { h.add("%s", r.Params.Level) },
	}
}

// TestEachClientHearsWhatItAskedFor has two clients with different wishes. What
// both hear comes last, so that neither can have missed anything before.
func TestEachClientHearsWhatItAskedFor(t *testing.T) {
	t.Parallel()
	h := host(t, false)
	var one, two heard
	first, second := h.connect(one.options()), h.connect(two.options())
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(first.Subscribe(t.Context(), &mcp.SubscribeParams{URI: watched}))
	do(second.Subscribe(t.Context(), &mcp.SubscribeParams{URI: watched}))
	do(second.Subscribe(t.Context(), &mcp.SubscribeParams{URI: plain}))
	do(first.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "error"}))
	do(second.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "debug"}))
	callTool(t, first, "update")
	callTool(t, first, "log")
	do(second.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: watched}))
	callTool(t, first, "update")
	callTool(t, second, "change")
	one.wait(t, "the first", watched, "error", watched, "tools")
	two.wait(t, "the second", plain, watched, "debug", "info", "error", plain, "tools")
	callTool(t, first, "update") // or it could be told of the tools once more
	one.wait(t, "the first", watched, "error", watched, "tools", watched)
	two.wait(t, "the second", plain, watched, "debug", "info", "error", plain, "tools", plain)
}

// TestClientsWithoutSessionsAreServed has the official client speak to a server
// of the revision before, beside a client of that one.
func TestClientsWithoutSessionsAreServed(t *testing.T) {
	t.Parallel()
	h := host(t, false)
	var all heard
	modern := h.connectIn(stateless, all.options())
	if got := modern.InitializeResult(); got.ProtocolVersion != stateless || got.ServerInfo.Name != "test" {
		t.Errorf("the client knows the server as %+v, want it in %s", got, stateless)
	}
	if _, err := modern.ListTools(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if err := modern.Subscribe(t.Context(), &mcp.SubscribeParams{URI: watched}); err != nil {
		t.Fatal(err)
	}
	legacy := h.connect(nil)
	// The client does not say when its subscription holds.
	until(t, "the client hears of the resource", func() bool {
		callTool(t, legacy, "update")
		return all.has(watched)
	})
	if text, failed := callTool(t, modern, "change"); failed {
		t.Error(text)
	}
	until(t, "the client hears of the tools", func() bool { return all.has("tools") })
	before := all.times(watched)
	callTool(t, legacy, "update")
	until(t, "the client hears of the resource again", func() bool { return all.times(watched) > before })
	if n := all.times("tools"); n != 1 {
		t.Errorf("the client heard %d times of one change", n)
	}
	if text, failed := callTool(t, modern, "ask"); !failed || !strings.Contains(text, "cannot do that") {
		t.Errorf("a client that cannot be asked gets %q, want why", text)
	}
	for _, action := range []string{"accept", "decline"} {
		if got, failed := callTool(t, h.connectIn(stateless, answering(action)), "ask"); failed || got != action {
			t.Errorf("the server was told %q, want %q", got, action)
		}
	}
	if text, failed := callTool(t, legacy, "pid"); failed {
		t.Error(text)
	}
}

// rawSession is a session whose frames are written and read as they are.
func (h *hosted) rawSession() (send func(string), receive func() string, leave func()) {
	h.t.Helper()
	ctx, leave := context.WithTimeout(h.t.Context(), patience)
	h.t.Cleanup(leave)
	stream, err := plughostv1.NewMCPClient(h.conn).Session(ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	send = func(message string) {
		h.t.Helper()
		if err := stream.Send(&plughostv1.Frame{Message: []byte(message)}); err != nil {
			h.t.Fatal(err)
		}
	}
	receive = func() string {
		h.t.Helper()
		frame, err := stream.Recv()
		if err != nil {
			h.t.Fatal(err)
		}
		return string(frame.GetMessage())
	}
	return send, receive, leave
}

func TestIdsAndTokensComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	h := host(t, false)
	send, receive, _ := h.rawSession()
	for _, id := range []string{`9007199254740993`, `"1"`, `1`, `"\u00e9"`, `""`} {
		send(`{"id":` + id + `,"jsonrpc":"2.0","method":"ping"}`)
		if got := receive(); !strings.Contains(got, `"id":`+id) {
			t.Errorf("the answer to %s is %s", id, got)
		}
		send(`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"wait","_meta":{"progressToken":` + id + `},"arguments":{}},"id":` + id + `}`)
		if got := receive(); !strings.Contains(got, `"progressToken":`+id) {
			t.Errorf("the progress of %s is %s", id, got)
		}
		send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
	}
	send(`{"jsonrpc":"2.0","id":7,"method":"nonsense"}`)
	if got := receive(); !strings.Contains(got, `"id":7`) || !strings.Contains(got, "-32601") {
		t.Errorf("after all that were cancelled comes %s, want the answer to the next", got)
	}
}

func TestClientsOfAllRevisionsAreServed(t *testing.T) {
	t.Parallel()
	h := host(t, false)
	for asked, want := range map[string]string{"2024-11-05": "2024-11-05", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25", "2099-01-01": "2025-11-25"} {
		send, receive, _ := h.rawSession()
		send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + asked + `","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
		got := receive()
		for _, part := range []string{`"protocolVersion":"` + want + `"`, `"name":"test"`, `"subscribe":true`} {
			if !strings.Contains(got, part) {
				t.Errorf("a client of %s is answered %s, want %s in it", asked, got, part)
			}
		}
	}
}

func TestRequestsThatStandAloneAreChecked(t *testing.T) {
	t.Parallel()
	h := host(t, false)
	send, receive, _ := h.rawSession()
	for _, test := range []struct{ method, meta, want string }{
		{"tools/list", `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`, `"code":-32602`},
		{"tools/list", `"io.modelcontextprotocol/protocolVersion":"2027-01-01"`, `"data":{"supported":["2024-11-05","2025-03-26","2025-06-18","2025-11-25","2026-07-28"],"requested":"2027-01-01"}`},
		{"ping", `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`, `"code":-32601`},
		{"server/discover", `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`, `"supportedVersions":`},
	} {
		send(`{"jsonrpc":"2.0","id":1,"method":"` + test.method + `","params":{"_meta":{` + test.meta + `}}}`)
		if got := receive(); !strings.Contains(got, test.want) {
			t.Errorf("%s with %s is answered %s, want %s in it", test.method, test.meta, got, test.want)
		}
	}
}

func TestIsolatedSessionsDoNotShareAServer(t *testing.T) {
	t.Parallel()
	h := host(t, true)
	first, _ := callTool(t, h.connect(nil), "pid")
	second, _ := callTool(t, h.connect(answering("accept")), "pid")
	if first == second {
		t.Errorf("both sessions are served by process %s", first)
	}
}

func TestLinesAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", shownLine+200<<10)
	input := "a\r\n\n" + long + "\nb\n" + long[:100]
	reader := newLines(strings.NewReader(input))
	reader.max = 100 << 10
	var got []string
	for {
		line, err := reader.next()
		if errors.Is(err, io.EOF) {
			break
		}
		text := string(bytes.Clone(line))
		if err != nil {
			text = fmt.Sprintf("%d: %v", len(line), err)
		}
		got = append(got, text)
	}
	want := []string{"a", "", fmt.Sprintf("%d: a line of %d bytes is longer than a message may be", shownLine, len(long)+1), "b", long[:100]}
	if !slices.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
}
