//go:build unix

package test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// stdioClient is a `plughost mcp` that a desktop client has started.
type stdioClient struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.ReadCloser
	stderr *strings.Builder
}

func startStdio(t *testing.T, stateDir string, args ...string) *stdioClient {
	t.Helper()
	c := &stdioClient{
		cmd:    exec.Command(filepath.Join(binaries, "plughost"), append([]string{"mcp", "--state-dir", stateDir}, args...)...),
		stderr: &strings.Builder{},
	}
	c.cmd.Stderr = c.stderr
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if c.out, err = c.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.in.Close()
		if err := c.cmd.Wait(); err != nil {
			t.Errorf("at the end of its input plughost mcp ended with %v: %s", err, c.stderr)
		}
	})
	return c
}

// connect opens a session. Anything but messages on standard output fails it.
func (c *stdioClient) connect(t *testing.T, revision string) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	session, err := client.Connect(ctx, &mcp.IOTransport{Reader: c.out, Writer: c.in}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// overStdio opens a session as desktop clients do: over `plughost mcp`.
func overStdio(t *testing.T, stateDir, revision string, args ...string) *mcp.ClientSession {
	t.Helper()
	return startStdio(t, stateDir, args...).connect(t, revision)
}

// pidOf calls the tool of the fault plugin that says its pid.
func pidOf(t *testing.T, session *mcp.ClientSession, tool string) float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result, err := session.CallTool(ctx, callParams(tool))
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := result.StructuredContent.(map[string]any)["pid"].(float64)
	return pid
}

func TestMCPOverStdio(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, fault("f", ""))
	h.waitReady()
	want := float64(h.status()["f"].PID)
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		if got := pidOf(t, overStdio(t, h.stateDir, revision), "f__pid"); got != want {
			t.Errorf("%s, all services: pid %v, want %v", revision, got, want)
		}
		if got := pidOf(t, overStdio(t, h.stateDir, revision, "--service", "f"), "pid"); got != want {
			t.Errorf("%s, one service: pid %v, want %v", revision, got, want)
		}
	}
	for _, test := range []struct {
		args []string
		code int
		say  string
	}{
		{[]string{"--state-dir", h.stateDir, "--service", "nope"}, 1, `no MCP service "nope"`},
		{[]string{"--state-dir", h.stateDir, "--config", "x.hcl"}, 2, "--start"},
		{[]string{"--state-dir", t.TempDir()}, 1, "plughost run"},
	} {
		if stdout, stderr, code := plughost(t, append([]string{"mcp"}, test.args...)...); code != test.code || stdout != "" || !strings.Contains(stderr, test.say) {
			t.Errorf("plughost mcp %v: status %d, %q %q", test.args, code, stdout, stderr)
		}
	}
}

// The client does not notice that there is another host, but by its processes.
func TestMCPOverStdioOutlivesTheHost(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, fault("f", ""))
	h.waitReady()
	session := overStdio(t, h.stateDir, "2025-11-25", "--service", "f")
	before := pidOf(t, session, "pid")
	h.kill()
	again := startHost(t, hostOptions{config: h.config, gateway: strings.TrimPrefix(h.base, "http://"), stateDir: h.stateDir})
	if after := pidOf(t, session, "pid"); after == before || after != float64(again.status()["f"].PID) {
		t.Errorf("the pid was %v, and is %v", before, after)
	}
}

// Who waits for a host's services takes one that is stopped for one that does not
// start.
func TestServicesStartBeforeAHostAnswers(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, fault("f", ""))
	var first map[string]serviceStatus
	eventually(t, "the host answers", func() bool {
		first = h.tryStatus()
		return first != nil
	})
	if state := first["f"].State; state == "stopped" {
		t.Errorf("the service is %s", state)
	}
	h.waitReady()
}

// However many clients start at once, there is one host, which goes on without
// them.
func TestMCPStartsOneHost(t *testing.T) {
	t.Parallel()
	path := faultConfig(t, hostOptions{}, fault("f", "")).config
	stateDir := newStateDir(t)
	var clients []*stdioClient
	for range 3 {
		clients = append(clients, startStdio(t, stateDir, "--start", "--config", path))
	}
	var pids []float64
	for _, client := range clients {
		pids = append(pids, pidOf(t, client.connect(t, "2025-11-25"), "f__pid"))
	}
	if pids[0] == 0 || len(slices.Compact(pids)) != 1 {
		t.Errorf("the clients see the plugins %v", pids)
	}
	status := readJSON[struct{ PID int }](t, 0, "status", "--json", "--state-dir", stateDir)
	t.Cleanup(func() {
		if err := syscall.Kill(status.PID, syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		eventually(t, "the host has ended", func() bool { return !alive(status.PID) })
	})
	log, err := os.ReadFile(filepath.Join(stateDir, "host.log"))
	if err != nil || strings.Count(string(log), "plughost is ready") != 1 {
		t.Errorf("the log is %s, %v", log, err)
	}
}

func TestMCPSaysWhyNoHostStarts(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, "service \"mcp\" \"f\" {\n  command = [\"/nowhere/f\"]\n}\n")
	for _, args := range [][]string{{"--state-dir", t.TempDir()}, {}} {
		stdout, stderr, code := plughost(t, append([]string{"mcp", "--start", "--config", path}, args...)...)
		if code != 1 || stdout != "" || !strings.Contains(stderr, "/nowhere/f") {
			t.Errorf("%v: status %d, %q %q", args, code, stdout, stderr)
		}
	}
}
