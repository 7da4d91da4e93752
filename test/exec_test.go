//go:build unix

package test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// server is a service that is no plugin: the fault plugin, which without a host
// of its own speaks MCP on standard input and output.
func server(name, body string) string {
	return strings.Replace(fault(name, body), "  command = ", "  exec = ", 1)
}

// servers are the processes of an instance other than the bridge, its leader.
func servers(t *testing.T, status serviceStatus) []int {
	t.Helper()
	var pids []int
	for _, p := range instanceProcesses(t, status.Instance) {
		if p.PID != status.PID {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// TestServerOnStandardOutput has servers write what is no message before their
// first one, start slowly, and leave others their pipes.
func TestServerOnStandardOutput(t *testing.T) {
	t.Parallel()
	early := filepath.Join(t.TempDir(), "early")
	check(t, os.WriteFile(early, []byte("Welcome to the server!\n\n{\"listening\": true}\nwithout an end\n"), 0o600))
	h := startFaults(t, hostOptions{},
		server("banner", fmt.Sprintf("  env = { FAULT_EARLY = %q }\n", early)),
		server("slow", "  env = { FAULT_DELAY = \"1s\" }\n"),
		server("held", "  env = { FAULT_GRANDCHILD = \"stubborn\" }\n"))
	h.waitReady()
	for _, name := range []string{"banner", "slow", "held"} {
		h.connect(t, name)
	}
	for _, want := range []string{"Welcome to the server!", `{"listening": true}`} {
		skipped := func(e logEntry) bool {
			return strings.Contains(e.Message, "no message: ") && strings.HasSuffix(e.Message, want)
		}
		eventually(t, fmt.Sprintf("it is logged that %q was skipped", want), func() bool {
			return slices.ContainsFunc(h.logged(t, "banner", "stderr"), skipped)
		})
	}
	h.stop()
}

// TestOneServerServesAllSessions has fifty clients want a server that is still
// starting, and call again and again: there is one process, from the first call
// to the last.
func TestOneServerServesAllSessions(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, server("f", "  env = { FAULT_DELAY = \"300ms\" }\n"))
	var served sync.Map
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			var session *mcp.ClientSession
			eventually(t, "the server is there", func() (there bool) {
				var err error
				session, err = tryConnect(t, h.base+"/mcp/f", "2025-11-25", nil)
				return err == nil
			})
			for range 10 {
				served.Store(callTool[struct{ PID int }](t, session, "pid", map[string]any{}).PID, nil)
			}
		})
	}
	wg.Wait()
	status := h.status()["f"]
	pids := servers(t, status)
	if len(pids) != 1 || status.Restarts != 0 {
		t.Errorf("after 500 calls the server runs as %v, with %d restarts, want one process and none", pids, status.Restarts)
	}
	for pid := range served.Range {
		if !slices.Contains(pids, pid.(int)) {
			t.Errorf("a call was served by pid %v, want %v", pid, pids)
		}
	}
}

// TestServerWithoutSessions is used as its requests stand alone, by clients of
// both kinds at all endpoints.
func TestServerWithoutSessions(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, server("f", "  sessions = \"none\"\n"))
	h.waitReady()
	want := servers(t, h.status()["f"])
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		for path, tool := range map[string]string{"/mcp": "f__pid", "/mcp/f": "pid"} {
			got := callTool[struct{ PID int }](t, connectAs(t, h.base+path, revision, nil), tool, map[string]any{})
			if !slices.Equal(want, []int{got.PID}) {
				t.Errorf("%s at %s is served by pid %d, want %v", revision, path, got.PID, want)
			}
		}
	}
	h.stop()
}

// TestServerWritesALot has a call write a megabyte to standard error, which
// nobody but the bridge reads, and return five.
func TestServerWritesALot(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, server("f", ""))
	h.waitReady()
	session := h.connect(t, "f")
	line := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 1023) + "\n"))
	callTool[struct{}](t, session, "write", map[string]any{"stream": "stderr", "base64": line, "times": 1024})
	const size = 5 << 20
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "large", Arguments: map[string]any{"bytes": size}})
	check(t, err)
	if text := result.Content[0].(*mcp.TextContent).Text; len(text) != size {
		t.Errorf("the result has %d bytes, want %d", len(text), size)
	}
	junk := base64.StdEncoding.EncodeToString([]byte("in between\n"))
	callTool[struct{}](t, session, "write", map[string]any{"stream": "stdout", "base64": junk, "times": 1})
	h.connect(t, "f")
}

// TestServerDiesDuringACall: the call fails, and others go well again as soon
// as there is a new server.
func TestServerDiesDuringACall(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, server("f", "  restart {\n    delay = \"10ms\"\n  }\n"))
	h.waitReady()
	session := h.connect(t, "f")
	before := toolsOf(t, session)
	old := h.status()["f"]
	exit := callParams("exit")
	exit.Arguments = map[string]any{"status": 3, "words": "farewell\n"}
	if result, err := session.CallTool(t.Context(), exit); err == nil && !result.IsError {
		t.Errorf("a call during which the server died went well: %v", result)
	}
	eventually(t, "there is a new server", func() bool {
		status := h.status()["f"]
		return status.State == "ready" && status.Instance != old.Instance
	})
	if status := h.status()["f"]; status.Restarts != 1 || !strings.Contains(status.LastError, "exit status 3") {
		t.Errorf("the service is %+v, want one restart, for exit status 3", status)
	}
	session = h.connect(t, "f")
	if after := toolsOf(t, session); after != before {
		t.Errorf("the tools are %s, want %s as before", after, before)
	}
}

// toolsOf are the tools that a client sees, with all that is said of them.
func toolsOf(t *testing.T, session *mcp.ClientSession) string {
	t.Helper()
	list, err := session.ListTools(t.Context(), nil)
	check(t, err)
	if len(list.Tools) == 0 {
		t.Error("there are no tools")
	}
	encoded, err := json.Marshal(list)
	check(t, err)
	return string(encoded)
}

// TestServerThatCannotWorkIsNotRestarted has servers exit with EX_CONFIG.
func TestServerThatCannotWorkIsNotRestarted(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{},
		server("shared", "  env = { FAULT_EXIT = \"78\" }\n"),
		server("isolated", "  sessions = \"isolated\"\n  env = { FAULT_EXIT = \"78\" }\n"))
	for _, name := range []string{"shared", "isolated"} {
		if status := h.waitState(name, "failed"); status.Restarts != 0 {
			t.Errorf("%s was restarted: %+v", name, status)
		}
	}
}

// TestServerThatCouldNotWorkIsHealthyOnceItCan corrects the configuration of a
// server that has failed for good.
func TestServerThatCouldNotWorkIsHealthyOnceItCan(t *testing.T) {
	t.Parallel()
	opts := faultConfig(t, hostOptions{stateDir: newStateDir(t)}, server("f", "  env = { FAULT_EXIT = \"78\" }\n"))
	h := startHost(t, opts)
	h.waitState("f", "failed")
	h.configure(opts, server("f", ""))
	h.reload(0)
	h.waitState("f", "ready")
	h.connect(t, "f")
}

// TestNothingOutlivesItsBridge ends servers that do not end with their input,
// and have grandchildren that end by force alone, in every way.
func TestNothingOutlivesItsBridge(t *testing.T) {
	t.Parallel()
	ways := []struct {
		name string
		end  func(t *testing.T, h *host, before serviceStatus)
	}{
		{"a stop", func(t *testing.T, h *host, _ serviceStatus) {
			if _, stderr, code := plughost(t, "stop", "f", "--state-dir", h.stateDir); code != 0 {
				t.Errorf("plughost stop ended with status %d: %s", code, stderr)
			}
		}},
		{"the host's stop", func(_ *testing.T, h *host, _ serviceStatus) { h.stop() }},
		{"the bridge's death", func(t *testing.T, h *host, before serviceStatus) {
			killPID(t, before.PID)
			h.waitState("f", "failed")
		}},
		{"the host's death", func(_ *testing.T, h *host, _ serviceStatus) { h.kill() }},
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			f := newFamily(t)
			h := startFaults(t, hostOptions{}, server("f", fmt.Sprintf(`
  env = { %s, FAULT_GRANDCHILD = "stubborn daemon", FAULT_STUBBORN = "1" }
  stop {
    grace = "1s"
  }
  restart {
    policy = "never"
  }
`, f.env())))
			h.waitReady()
			processes := append(f.wait("plugin", 1), f.wait("grandchild", 1)...)
			f.checkAlive("before", processes)
			way.end(t, h, h.status()["f"])
			eventually(t, "all are gone", func() bool {
				return !slices.ContainsFunc(f.pids(), alive)
			})
		})
	}
}

// TestServerIsStoppedBeforeItAnswered stops what is still starting.
func TestServerIsStoppedBeforeItAnswered(t *testing.T) {
	t.Parallel()
	f := newFamily(t)
	h := startFaults(t, hostOptions{}, server("f", fmt.Sprintf("  env = { %s, FAULT_DELAY = \"1h\", FAULT_GRANDCHILD = \"stubborn daemon\" }\n", f.env())))
	f.wait("grandchild", 1)
	f.checkAlive("before", f.wait("plugin", 1))
	if _, stderr, code := plughost(t, "stop", "f", "--state-dir", h.stateDir); code != 0 {
		t.Errorf("plughost stop ended with status %d: %s", code, stderr)
	}
	f.checkGone("after the stop")
}

// TestServerHasItsPortBackAfterAStop stops a server that listens, and starts it
// again.
func TestServerHasItsPortBackAfterAStop(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, server("f", fmt.Sprintf("  port = %d\n  env = { FAULT_LISTEN = \"1\" }\n", freePorts(t, 1)[0])))
	h.waitReady()
	for _, verb := range []string{"stop", "start", "restart"} {
		if _, stderr, code := plughost(t, verb, "f", "--state-dir", h.stateDir); code != 0 {
			t.Errorf("plughost %s ended with status %d: %s", verb, code, stderr)
		}
	}
	h.connect(t, "f")
}

// TestKeptServerIsTakenOver kills the host of a server that is to outlive it.
func TestKeptServerIsTakenOver(t *testing.T) {
	t.Parallel()
	opts := faultConfig(t, hostOptions{stateDir: newStateDir(t)}, server("f", keepBody))
	h := startHost(t, opts)
	h.waitReady()
	first := h.status()
	pids := servers(t, first["f"])
	h.kill()
	h = startHost(t, opts)
	h.waitReady()
	checkSame(t, first, h.status())
	session := h.connect(t, "f")
	if got := callTool[struct{ PID int }](t, session, "pid", map[string]any{}); !slices.Contains(pids, got.PID) {
		t.Errorf("the call was served by pid %d, want one of %v", got.PID, pids)
	}
	h.signal(syscall.SIGINT)
	h.waitExit()
	checkNothingRuns(t, h.stateDir)
}

// TestIsolatedSessionsHaveServersOfTheirOwn counts processes as sessions come
// and go.
func TestIsolatedSessionsHaveServersOfTheirOwn(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, server("f", "  sessions = \"isolated\"\n"))
	h.waitReady()
	before := servers(t, h.status()["f"])
	seen := make(map[int]bool)
	var sessions []*mcp.ClientSession
	for range 3 {
		session := connectAs(t, h.base+"/mcp/f", "2025-11-25", nil)
		seen[callTool[struct{ PID int }](t, session, "pid", map[string]any{}).PID] = true
		sessions = append(sessions, session)
	}
	if len(seen) != len(sessions) {
		t.Fatalf("%d sessions are served by %v, want a process for each", len(sessions), seen)
	}
	for _, session := range sessions {
		check(t, session.Close())
	}
	eventually(t, "the sessions' servers are gone", func() bool {
		return len(servers(t, h.status()["f"])) <= len(before)
	})
}

// TestServerHearsOfItsClients has calls report progress, be cancelled, and ask
// their own client, side by side in sessions of one server.
func TestServerHearsOfItsClients(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, server("f", ""))
	h.waitReady()
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			began := filepath.Join(t.TempDir(), "began")
			progress := make(chan string, 1)
			waiting := connectAs(t, h.base+"/mcp/f", revision, &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
					progress <- fmt.Sprint(req.Params.ProgressToken, " ", req.Params.Message)
				},
			})
			asking := connectAs(t, h.base+"/mcp/f", revision, &mcp.ClientOptions{
				ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					return &mcp.ElicitResult{Action: "decline"}, nil
				},
			})
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			go func() {
				params := &mcp.CallToolParams{Name: "wait", Arguments: map[string]any{"began": began}}
				params.SetProgressToken("mine")
				_, err := waiting.CallTool(ctx, params)
				failed <- err
			}()
			exists := func() bool { _, err := os.Stat(began); return err == nil }
			eventually(t, "the call has begun", exists)
			// A call that is cancelled takes what was on its way to the client with it.
			if got := <-progress; got != "mine waiting" {
				t.Errorf("the progress is %q, want the client's own token", got)
			}
			if got := callTool[struct{ Action string }](t, asking, "ask", map[string]any{"message": "May I?"}); got.Action != "decline" {
				t.Errorf("the server was told %q, want what the client said", got.Action)
			}
			cancel()
			if err := <-failed; err == nil {
				t.Error("a call that was cancelled went well")
			}
			eventually(t, "the server has heard of it", func() bool { return !exists() })
		})
	}
}
