//go:build unix

package test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestJoinedSessionsOutliveAService has sessions with a plugin and a hosted server
// at once: both ask the client, and when the plugin dies, it is its own calls that
// fail, once and at once.
func TestJoinedSessionsOutliveAService(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, fault("f", "  restart {\n    delay = \"100ms\"\n  }\n"), server("g", ""))
	h.waitReady()
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			var changes atomic.Int32
			session := connectAs(t, h.base+"/mcp", revision, &mcp.ClientOptions{
				ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					return &mcp.ElicitResult{Action: req.Params.Message}, nil
				},
				ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changes.Add(1) },
			})
			asking := map[string]string{"g__ask": "cancel"}
			if revision < "2026" { // later a server asks in its result, as the hosted one is made to
				asking["f__ask"] = "decline"
			}
			for tool, action := range asking {
				if got := callTool[struct{ Action string }](t, session, tool, map[string]any{"message": action}); got.Action != action {
					t.Errorf("%s was told %q, want %q", tool, got.Action, action)
				}
			}
			first, other := pidOf(t, session, "f__pid"), pidOf(t, session, "g__pid")

			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			began := filepath.Join(t.TempDir(), "began")
			failed := make(chan error, 1)
			go func() {
				_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "f__wait", Arguments: map[string]any{"began": began}})
				failed <- err
			}()
			eventually(t, "the call has begun", func() bool { _, err := os.Stat(began); return err == nil })
			exit := callParams("exit")
			exit.Arguments = map[string]any{"status": 1, "words": ""}
			if _, err := connectAs(t, h.base+"/mcp/f", revision, nil).CallTool(ctx, exit); err == nil {
				t.Fatal("the plugin did not exit")
			}
			var lost *jsonrpc.Error
			if err := <-failed; !errors.As(err, &lost) || lost.Code != -32000 {
				t.Errorf("the call in flight: %v", err)
			}
			eventually(t, "the plugin is back", func() bool {
				status := h.tryStatus()["f"]
				return status.State == "ready" && float64(status.PID) != first
			})
			if now := pidOf(t, session, "f__pid"); now == first || now != float64(h.status()["f"].PID) {
				t.Errorf("the plugin's pid is %v, and was %v", now, first)
			}
			if now := pidOf(t, session, "g__pid"); now != other {
				t.Errorf("the other's pid is %v, and was %v", now, other)
			}
			if n := changes.Load(); n > 0 {
				t.Errorf("the client was told %d times of a list that has not changed", n)
			}
		})
	}
}
