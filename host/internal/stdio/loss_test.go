package stdio

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/shared/wire"
)

// begin opens a session, and returns when the host knows that it has begun.
func (r *raw) begin() {
	r.t.Helper()
	r.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`)
	r.hear()
	r.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	r.say(`{"jsonrpc":"2.0","id":"begun","method":"ping"}`)
	r.hearUntil(`"begun"`)
}

// question passes over all before a question of the server, and returns its id.
func (r *raw) question() string {
	r.t.Helper()
	for {
		m, err := wire.Scan([]byte(r.hear()))
		if err == nil && m.Kind == wire.Request {
			return string(m.Bytes(m.ID))
		}
	}
}

// hearUntil passes over all before a line that has something in it.
func (r *raw) hearUntil(what string) {
	r.t.Helper()
	for !strings.Contains(r.hear(), what) {
	}
}

func TestCallThatIsCancelledWhileThereIsNoHostIsNotMade(t *testing.T) {
	for _, revision := range []string{legacy, modern} {
		t.Run(revision, func(t *testing.T) {
			var made atomic.Int64
			h := newHost(t, func() *mcp.Server {
				server := mcp.NewServer(&mcp.Implementation{Name: "server"}, nil)
				addTool(server, "do", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					made.Add(1)
					return text("done"), nil
				})
				return server
			})
			c := h.raw()
			meta := `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
			if revision == legacy {
				meta = ""
				c.begin()
			}
			c.say(`{"jsonrpc":"2.0","id":0,"method":"prompts/get","params":{"name":"none"` + meta + `}}`)
			c.hearUntil(`"id":0`)
			h.end()
			c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"do"` + meta + `}}`)
			c.say(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`) // is for the next host as well
			c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
			c.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"do"` + meta + `}}`)
			c.say(`{`)
			c.hearUntil("-32700") // it has taken what was said before
			h.start()
			c.hearUntil(`"id":2`)
			if n := made.Load(); n != 1 {
				t.Errorf("the server is called %d times, want once", n)
			}
		})
	}
}

// A client may leave while it waits for a host.
func TestEndOfInputEndsTheWaitForAHost(t *testing.T) {
	h := newHost(t, func() *mcp.Server { return mcp.NewServer(&mcp.Implementation{Name: "server"}, nil) })
	h.lastWords = time.Millisecond
	h.end()
	c := h.raw()
	c.say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	_ = c.in.Close()
	c.end()
}

// refusing answers the first requests that have something in their bodies with
// a status.
func refusing(next http.Handler, what string, status int) http.Handler {
	var refused atomic.Bool
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		if strings.Contains(string(body), what) && refused.CompareAndSwap(false, true) {
			http.Error(w, "not now", status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// What a new host does not take at first it is told again, by whoever listens.
func TestSessionThatCannotBeOpenedAgainIsTriedAgain(t *testing.T) {
	for _, what := range []string{methodInitialize + `"`, methodSubscribe} {
		t.Run(what, func(t *testing.T) {
			servers := make(chan *mcp.Server, 2)
			h := newHost(t, func() *mcp.Server {
				server := mcp.NewServer(&mcp.Implementation{Name: "server"}, &mcp.ServerOptions{
					SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
					UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
				})
				server.AddResource(&mcp.Resource{URI: "a:b", Name: "b"}, nil)
				servers <- server
				return server
			})
			<-servers
			c := h.raw()
			c.begin()
			c.say(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a:b"}}`)
			c.hearUntil(`"id":1`)
			h.end()
			h.wrap = func(next http.Handler) http.Handler { return refusing(next, what, http.StatusServiceUnavailable) }
			h.start()
			c.hearUntil("resources/list_changed") // a new session
			// The listener's stream may be opened a little later.
			server := <-servers
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				tick := time.NewTicker(10 * time.Millisecond)
				defer tick.Stop()
				for {
					select {
					case <-tick.C:
						_ = server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: "a:b"})
					case <-ctx.Done():
						return
					}
				}
			}()
			c.hearUntil("resources/updated")
		})
	}
}

// Whom nobody waits for any more the client need not answer, and must not: the
// next host counts its questions anew.
func TestQuestionsOfAHostThatEndedAreWithdrawn(t *testing.T) {
	h := newHost(t, func() *mcp.Server {
		server := mcp.NewServer(&mcp.Implementation{Name: "server"}, nil)
		addTool(server, "ask", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			answer, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "?"})
			if err != nil {
				return nil, err
			}
			return text(answer.Action), nil
		})
		return server
	})
	var late atomic.Bool
	h.wrap = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			if bytes.Contains(body, []byte("too late")) {
				late.Store(true)
			}
			next.ServeHTTP(w, r)
		})
	}
	c := h.raw()
	c.begin()
	ids := make(chan string, 3)
	for _, id := range []string{"1", "2"} {
		c.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"ask"}}`)
		ids <- c.question()
	}
	answered, open := <-ids, <-ids
	c.say(`{"jsonrpc":"2.0","id":` + answered + `,"result":{"action":"decline"}}`)
	c.hearUntil("decline")
	h.end()
	h.start()
	for withdrawn := false; !withdrawn; {
		line := c.hear()
		if strings.Contains(line, `"requestId":`+answered) {
			t.Errorf("what was answered is withdrawn: %s", line)
		}
		withdrawn = strings.Contains(line, methodCancelled) && strings.Contains(line, `"requestId":`+open)
		if strings.Contains(line, "list_changed") {
			t.Fatal("there is a new session, and the question is not withdrawn")
		}
	}
	c.say(`{"jsonrpc":"2.0","id":` + open + `,"result":{"action":"cancel","_meta":{"it is":"too late"}}}`)
	c.say(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"ask"}}`)
	c.say(`{"jsonrpc":"2.0","id":` + c.question() + `,"result":{"action":"accept"}}`)
	c.hearUntil("accept")
	if late.Load() {
		t.Error("the next host gets the answer to a question of the one before")
	}
}
