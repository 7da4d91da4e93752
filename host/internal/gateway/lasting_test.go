package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/host/internal/config"
)

// newLastingFront is one whose sessions end soon if nobody uses them.
func newLastingFront(t *testing.T, idle time.Duration) *front {
	t.Helper()
	return newLimitedFront(t, config.GatewayLimits{SessionIdle: idle}, mcpConfig("a"))
}

// heap is what is in use after a collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // what finalizers let go of
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// Clients that go without a word leave nothing behind, once their time is over.
func TestAbandonedSessionsLeaveNothing(t *testing.T) {
	f := newLastingFront(t, 300*time.Millisecond)
	f.ready("a", newPlugin(t, newServer("one")))
	abandon := func(n int) {
		for _, path := range []string{"/mcp", "/mcp/a"} {
			for range n {
				c := &rawClient{t: t, url: f.url + path}
				if a := c.post(rawInitialize); a.status != http.StatusOK {
					t.Fatalf("%s: status %d, %s", path, a.status, a.body)
				}
			}
		}
		eventually(t, "the sessions are over", func() bool { return f.Sessions()[""]+f.Sessions()["a"] == 0 })
	}
	abandon(50) // what is made once is made now
	before, routines := heap(), runtime.NumGoroutine()
	abandon(300)
	eventually(t, "their goroutines have ended", func() bool { return runtime.NumGoroutine() <= routines+5 })
	if after := heap(); after > before+(2<<20) {
		t.Errorf("600 abandoned sessions leave %d kB", (after-before)>>10)
	}
}

// A session may last, whatever is called in it.
func TestManyCallsInOneSessionLeaveNothing(t *testing.T) {
	f := newLastingFront(t, time.Minute)
	f.ready("a", newPlugin(t, newServer("one")))
	for _, endpoint := range []struct{ path, tool string }{{"/mcp", "a__one"}, {"/mcp/a", "one"}} {
		session := f.connect(endpoint.path, legacy, nil)
		calls := func(n int) {
			for range n {
				if got, err := call(t.Context(), session, endpoint.tool); err != nil || got != "one" {
					t.Fatalf("%q, %v", got, err)
				}
			}
		}
		calls(100)
		before := heap()
		calls(700)
		if after := heap(); after > before+(1<<20) {
			t.Errorf("%s: 700 calls leave %d kB", endpoint.path, (after-before)>>10)
		}
	}
}

// Who hangs up in the middle of a large answer is noticed by nobody else.
func TestClientThatHangsUpDuringItsAnswerIsNotNoticed(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	server := newServer("one")
	addTool(server, "large", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(strings.Repeat("x", 1<<20)), nil
	})
	f.ready("a", newPlugin(t, server))
	session := f.connect("/mcp/a", legacy, nil)
	var others sync.WaitGroup
	others.Go(func() {
		for range 20 {
			if got, err := call(context.Background(), session, "one"); err != nil || got != "one" {
				t.Errorf("another client: %q, %v", got, err)
			}
		}
	})
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"large",%s}}`, rawMeta)
	for range 5 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(conn, "POST /mcp/a HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
			"Accept: application/json, text/event-stream\r\nMcp-Protocol-Version: %s\r\nMcp-Method: tools/call\r\nMcp-Name: large\r\n"+
			"Content-Length: %d\r\n\r\n%s", modern, len(body), body); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 1000)); err != nil {
			t.Errorf("the answer does not begin: %v", err)
		}
		_ = conn.Close()
	}
	others.Wait()
}
