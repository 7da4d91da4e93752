//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/bridge"
	"github.com/plughost/plughost/shared/mcphttp"
	"github.com/plughost/plughost/shared/wire"
)

// withoutSessions are servers that are used without sessions: one on standard
// output; elsewhere one that knows nothing else, one whose sessions are none, and
// one that has sessions too.
func withoutSessions(t *testing.T) map[string]bridge.Target {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]bridge.Target{
		"standard output": {Path: self, Args: []string{self, "serve"}, Sessionless: true},
		"remote":          elsewhere(t, always(onlyAlone(aloneHandler()))),
		"remote of both":  elsewhere(t, always(aloneHandler())),
		"with sessions":   elsewhere(t, always(handlerOfBoth())),
	}
}

func always(handler http.Handler) func(http.Handler) http.Handler {
	return func(http.Handler) http.Handler { return handler }
}

func aloneHandler() http.Handler {
	server := newServer()
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})
}

func handlerOfBoth() http.Handler {
	server := newServer()
	return mcphttp.Handler(func(*http.Request) *mcp.Server { return server }, mcphttp.Options{Guarded: true})
}

// onlyAlone refuses what belongs to a session.
func onlyAlone(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Protocol-Version") != stateless {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// eachWithoutSessions runs a test with each of these servers, as far as it is
// for clients of a revision.
func eachWithoutSessions(t *testing.T, test func(t *testing.T, h *hosted, revision string)) {
	for name, target := range withoutSessions(t) {
		for _, revision := range []string{"2025-06-18", "2025-11-25", stateless} {
			if name == "with sessions" && revision != stateless {
				continue // it has one for those
			}
			t.Run(name+", "+revision, func(t *testing.T) {
				t.Parallel()
				test(t, hostTarget(t, target), revision)
			})
		}
	}
}

func TestServersWithoutSessionsServeClientsOfAllRevisions(t *testing.T) {
	t.Parallel()
	eachWithoutSessions(t, func(t *testing.T, h *hosted, revision string) {
		var all heard
		options := all.options()
		options.ElicitationHandler = answering("accept").ElicitationHandler
		session := h.connectIn(revision, options)
		if got := session.InitializeResult(); got.ProtocolVersion != revision || got.ServerInfo.Name != "test" || got.Capabilities.Resources == nil {
			t.Errorf("the client knows the server as %+v, want it in %s", got, revision)
		}
		tools, err := session.ListTools(t.Context(), nil)
		if err != nil || len(tools.Tools) < 8 {
			t.Errorf("the tools are %v, %v", tools, err)
		}
		if got, failed := callTool(t, session, "need"); failed || got != "accept" {
			t.Errorf("the server that needs something was told %q", got)
		}
		if got, failed := callTool(t, h.connectIn(revision, nil), "need"); !failed {
			t.Errorf("a client that cannot be asked gets %q", got)
		}
		if got, failed := callTool(t, session, "ask"); !failed || !strings.Contains(got, "elicitation/create") {
			t.Errorf("a tool that asks as servers with sessions do: %q, want that it cannot", got)
		}
		if err := session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: watched}); err != nil {
			t.Fatal(err)
		}
		until(t, "the client hears of the resource", func() bool { // of stateless it does not say when it listens
			callTool(t, session, "update")
			return all.has(watched)
		})
		until(t, "the client hears of the tools", func() bool { // nor in sessions
			callTool(t, session, "change")
			return all.has("tools")
		})
		if all.has(plain) {
			t.Error("the client hears of a resource that it did not ask for")
		}
		if err := h.backend.Health(t.Context()); err != nil {
			t.Errorf("the server is not healthy: %v", err)
		}
	})
}

func TestServersWithoutSessionsHearWhatConcernsTheirCalls(t *testing.T) {
	t.Parallel()
	eachWithoutSessions(t, func(t *testing.T, h *hosted, revision string) {
		progress := make(chan any, 1)
		session := h.connectIn(revision, &mcp.ClientOptions{
			ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress <- r.Params.ProgressToken },
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			params := &mcp.CallToolParams{Name: "wait"}
			params.SetProgressToken("mine")
			_, err := session.CallTool(ctx, params)
			ended <- err
		}()
		if token := <-progress; token != "mine" {
			t.Errorf("the progress has the token %v", token)
		}
		cancel()
		if err := <-ended; err == nil {
			t.Error("a call that was cancelled went well")
		}
		if text, failed := callTool(t, session, "cancelled"); failed {
			t.Errorf("the server did not hear of it: %s", text)
		}
		ctx, cancel = context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := h.work.Drain(ctx); err != nil {
			t.Errorf("something counts as in flight still: %v", err)
		}
	})
}

// Nothing but a result says for which call a server asks, so many may.
func TestServersWithoutSessionsAskManyClientsAtOnce(t *testing.T) {
	t.Parallel()
	eachWithoutSessions(t, func(t *testing.T, h *hosted, revision string) {
		var asked, calls sync.WaitGroup
		asked.Add(3)
		for _, action := range []string{"accept", "decline", "cancel"} {
			session := h.connectIn(revision, &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: action}, nil
			}})
			calls.Go(func() {
				asked.Done()
				asked.Wait()
				if got, failed := callTool(t, session, "need"); failed || got != action {
					t.Errorf("the server was told %q, want %q", got, action)
				}
			})
		}
		calls.Wait()
	})
}

func TestServersWithoutSessionsLogWhatTheCallWants(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"standard output", "remote"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := hostTarget(t, withoutSessions(t)[name])
			var one, two heard
			first, second := h.connect(one.options()), h.connect(two.options())
			if err := first.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "info"}); err != nil {
				t.Fatal(err)
			}
			callTool(t, first, "log")
			callTool(t, second, "log")
			one.wait(t, "the client that asked", "info", "error")
			two.wait(t, "the client that did not")
			if err := first.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "loud"}); err == nil {
				t.Error("a level that is none is taken")
			}
		})
	}
}

// What a client with a session says in _meta is passed on as it is, also nothing.
func TestMetaOfClientsWithSessionsStays(t *testing.T) {
	t.Parallel()
	e := newElder(newGuest(t.Context(), said{}, newClient(&shared.Work{}, func(error) {})))
	for given, want := range map[string]string{
		`null`:                               `{"_meta":{"` + mcp.MetaKeyClientCapabilities + `":{},"` + mcp.MetaKeyProtocolVersion + `":"` + stateless + `"}}`,
		`{"progressToken":9007199254740993}`: `{"_meta":{"` + mcp.MetaKeyClientCapabilities + `":{},"` + mcp.MetaKeyProtocolVersion + `":"` + stateless + `","progressToken":9007199254740993}}`,
	} {
		m, err := e.standing([]byte("1"), "tools/list", []byte(`{"_meta":`+given+`}`), nil)
		if err != nil {
			t.Errorf("%s: %v", given, err)
			continue
		}
		if got := string(m.Bytes(m.Params)); got != want {
			t.Errorf("%s becomes %s, want %s", given, got, want)
		}
	}
}

// What a client without a session is answered is what the server says.
func TestResultsOfServersThatStandAlonePassAsTheyAre(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]bridge.Target{
		"used without sessions": {Path: self, Args: []string{self, "serve"}, Sessionless: true},
		"used with a session":   {Path: self, Args: []string{self, "serve"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			send, receive, _ := hostTarget(t, target).rawSession()
			send(`{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
			got := receive()
			for _, once := range []string{`"id":9007199254740993,`, `"resultType":"complete"`, `"ttlMs":`, `"cacheScope":`, `"io.modelcontextprotocol/serverInfo":`} {
				if n := strings.Count(got, once); n != 1 {
					t.Errorf("%s is there %d times: %.300s", once, n, got)
				}
			}
		})
	}
}

// A server that cannot be used as is preferred is used in the other way.
func TestServersAreUsedAsTheyCanBe(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		role        string
		sessionless bool // is preferred
		want        bool
	}{
		{"serve", false, false},
		{"serve", true, true},
		{"serve with sessions", true, false},
		{"serve without sessions", false, true},
	} {
		h := hostTarget(t, bridge.Target{Path: self, Args: []string{self, test.role}, Sessionless: test.sessionless})
		if got := h.backend.(*mux).sessionless(); got != test.want {
			t.Errorf("%s, preferred %v: it is used without sessions %v", test.role, test.sessionless, got)
		}
		if text, failed := callTool(t, h.connect(nil), "pid"); failed {
			t.Errorf("%s: %s", test.role, text)
		}
	}
}

// What a tool wants to have in headers is there, though no client can know it.
func TestRemoteServerGetsArgumentsInHeaders(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{"2025-11-25", stateless} {
		session := hostTarget(t, withoutSessions(t)["remote"]).connectIn(revision, nil)
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "where", Arguments: map[string]any{"city": "Zürich"}})
		if err != nil || result.Content[0].(*mcp.TextContent).Text != "=?base64?WsO8cmljaA==?=" {
			t.Errorf("%s: the headers say %v, %v", revision, result, err)
		}
	}
}

// However many listen, each is told once of a change, under its own id.
func TestListenersOfServersWithoutSessionsAreToldOnce(t *testing.T) {
	t.Parallel()
	for name, target := range withoutSessions(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := hostTarget(t, target)
			caller := h.connectIn(stateless, nil)
			hear := make(map[string]func() string)
			for _, id := range []string{`"a"`, `7`} {
				send, receive, _ := h.rawSession()
				send(`{"jsonrpc":"2.0","id":` + id + `,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["` + watched + `"]},` +
					`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
				if got := receive(); !strings.Contains(got, methodAcknowledged) || !strings.Contains(got, `"toolsListChanged":true`) || strings.Contains(got, "promptsListChanged") {
					t.Fatalf("first comes %s", got)
				}
				hear[id] = receive
			}
			for range 2 {
				for tool, want := range map[string]string{"change": "notifications/tools/list_changed", "update": "notifications/resources/updated"} {
					callTool(t, caller, tool)
					for id, next := range hear {
						if got := next(); !strings.Contains(got, want) || !strings.Contains(got, `"io.modelcontextprotocol/subscriptionId":`+id) {
							t.Errorf("%s is told %s, want %s", id, got, want)
						}
					}
				}
			}
		})
	}
}

// A server that answers and ends has answered, once.
func TestAnswerBeforeTheEndIsTheOnlyOne(t *testing.T) {
	t.Parallel()
	request := scan(t, `{"jsonrpc":"2.0","id":"a","method":"ping"}`)
	for range 200 {
		m := newIdle(t)
		m.server.input, m.server.drained = make(chan []byte), make(chan struct{})
		go func() {
			m.answer(m.sent())
			close(m.server.drained)
		}()
		answered := false
		if err := m.ask(t.Context(), request, func(wire.Message) { answered = true }); err != nil && answered {
			t.Fatalf("a call that was answered fails: %v", err)
		}
	}
}

// A client may use the id of a call again as soon as it is answered.
func TestIdOfAnAnsweredCallIsUsedAgain(t *testing.T) {
	t.Parallel()
	var calls inFlight
	_, before := calls.begin(t.Context(), []byte("1"))
	again, done := calls.begin(t.Context(), []byte("1"))
	before()
	if !calls.giveUp([]byte("1")) || again.Err() == nil {
		t.Error("the second call cannot be given up")
	}
	done()
	if calls.giveUp([]byte("1")) {
		t.Error("the second call is still there")
	}
}

// What a client says once too often has it not hear all twice.
func TestRemoteServerIsListenedToOnce(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.Handler{"in a session": handlerOfBoth(), "without": onlyAlone(aloneHandler())} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listens := make(chan struct{}, 100)
			h := hostTarget(t, elsewhere(t, always(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if r.Method == http.MethodGet || strings.Contains(string(body), methodListen) {
					listens <- struct{}{}
				}
				r.Body = io.NopCloser(strings.NewReader(string(body)))
				handler.ServeHTTP(w, r)
			}))))
			send, receive, _ := h.rawSession()
			send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
			receive()
			for range 3 {
				send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			}
			for range 3 {
				send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
				receive()
			}
			within(t, listens, "the server is listened to")
			until(t, "the client hears of a change", func() bool {
				send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"change","arguments":{}}}`)
				return strings.Contains(receive(), "list_changed")
			})
			if n := len(listens); n != 0 {
				t.Errorf("the server is listened to %d times more", n)
			}
		})
	}
}

// restless is a server whose listeners lose their connection once they listen,
// for the first few times.
type restless struct {
	breaks  int
	settled chan struct{} // closed when it is over
}

func (*restless) said() hello { return said{}.said() }

func (r *restless) ask(ctx context.Context, request wire.Message, deliver func(wire.Message)) error {
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","method":"` + methodAcknowledged + `"}`))
	if err != nil {
		return err
	}
	deliver(m)
	if r.breaks--; r.breaks >= 0 {
		return errors.New("the connection broke")
	}
	close(r.settled)
	<-ctx.Done()
	return ctx.Err()
}

// What changes while nobody listens is not told afterwards.
func TestClientHearsThatAllMayBeOtherAfterAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &restless{breaks: 2, settled: make(chan struct{})}
		c := newClient(&shared.Work{}, func(error) {})
		g := newGuest(t.Context(), server, c)
		defer g.close()
		wants := mcp.NotificationSubscriptions{ToolsListChanged: true, ResourceSubscriptions: []string{watched}}
		if err := <-g.elder.hear(g.life, wants); err != nil {
			t.Fatal(err)
		}
		<-server.settled
		var heard []string
		frames, _ := c.take()
		for _, frame := range frames {
			m := scan(t, string(frame.GetMessage()))
			heard = append(heard, string(m.Method)+uriOf(m))
		}
		want := []string{"notifications/tools/list_changed", "notifications/resources/updated" + watched}
		if want = append(want, want...); !slices.Equal(heard, want) {
			t.Errorf("after two pauses the client hears %v, want %v", heard, want)
		}
	})
}
