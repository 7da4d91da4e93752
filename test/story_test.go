//go:build unix

package test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// sample is had by one test at a time: its addresses are fixed.
var sample sync.Mutex

// The sample configuration's addresses.
const (
	sampleGateway   = "127.0.0.1:7433"
	sampleClock     = 8101
	sampleAssistant = 8102
)

// TestNewcomer is what the README promises, on the sample configuration, with
// children that do not notice the death of their host, as on a system without
// a death signal.
func TestNewcomer(t *testing.T) {
	t.Parallel()
	opts := sampleHost(t)
	opts.outliveHost = true

	h := startHost(t, opts)
	h.waitReady()
	first := h.status()
	checkServes(t, h)

	// The host is killed. Its children stay, and hold their ports.
	h.kill()
	for name, port := range map[string]int{"clock": sampleClock, "assistant": sampleAssistant} {
		if !alive(first[name].PID) {
			t.Fatalf("%s did not outlive the host: the test tests nothing", name)
		}
		if !listening(port) {
			t.Fatalf("%s does not hold port %d any more: the test tests nothing", name, port)
		}
	}

	// The next host takes back exactly those.
	h = startHost(t, opts)
	h.waitReady()
	second := h.status()
	for name, old := range first {
		if alive(old.PID) {
			t.Errorf("the old %s, pid %d, is still there", name, old.PID)
		}
		if second[name].Instance == old.Instance {
			t.Errorf("%s has the same instance as before", name)
		}
	}
	checkServes(t, h)
	h.stop()

	// A stranger has the assistant's port.
	stranger := listenElsewhere(t, sampleAssistant)
	h = startHost(t, opts)
	h.waitState("clock", "ready")
	status := h.waitState("assistant", "backoff")
	for _, want := range []string{fmt.Sprintf("port %d is held by pid %d", sampleAssistant, stranger.Process.Pid), "left alone"} {
		if !strings.Contains(status.LastError, want) {
			t.Errorf("the error of the assistant is %q, want %q in it", status.LastError, want)
		}
	}
	if code, body := get(t, h.base+"/readyz"); code != 503 {
		t.Errorf("/readyz answers %d %q while a service is not ready, want 503", code, body)
	}
	if code, _ := get(t, h.base+"/healthz"); code != 200 {
		t.Errorf("/healthz answers %d, want 200", code)
	}
	checkClock(t, h)
	if !alive(stranger.Process.Pid) || !listening(sampleAssistant) {
		t.Error("the stranger was hurt")
	}
	// The stranger goes: the service comes by itself.
	endProcess(t, stranger)
	h.waitReady()
	checkServes(t, h)
	h.stop()
}

// TestHostDeathTakesChildrenAlong is the same death with nothing switched off.
func TestHostDeathTakesChildrenAlong(t *testing.T) {
	t.Parallel()
	h := startHost(t, sampleHost(t))
	h.waitReady()
	services := h.status()
	h.kill()
	for name, s := range services {
		eventually(t, name+" is gone", func() bool { return !alive(s.PID) })
	}
}

// sampleHost is how the sample configuration is run, as far as its ports are
// free.
func sampleHost(t *testing.T) hostOptions {
	t.Helper()
	sample.Lock()
	t.Cleanup(sample.Unlock) // after its hosts have ended
	for _, port := range []int{7433, sampleClock, sampleAssistant} {
		if listening(port) {
			t.Fatalf("somebody listens on port %d of the sample configuration", port)
		}
	}
	// The sample's commands are beside it, in bin/.
	root := t.TempDir()
	if err := os.Symlink(binaries, filepath.Join(root, "bin")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "config"), 0o700); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(repositoryRoot(t), "config", "services.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "config", "services.hcl")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return hostOptions{config: path, gateway: sampleGateway, stateDir: newStateDir(t)}
}

// checkServes calls everything that the sample has, through the gateway and on
// the services' own ports.
func checkServes(t *testing.T, h *host) {
	t.Helper()
	checkClock(t, h)
	for _, url := range []string{h.base + "/a2a/assistant", fmt.Sprintf("http://127.0.0.1:%d", sampleAssistant)} {
		states, answer := ask(t, url, "How many days between 2026-01-01 and 2026-03-01?")
		if !strings.Contains(answer, "59") {
			t.Errorf("%s: the answer is %q, want 59 in it", url, answer)
		}
		for _, want := range []a2a.TaskState{a2a.TaskStateSubmitted, a2a.TaskStateWorking, a2a.TaskStateCompleted} {
			if !slices.Contains(states, want) {
				t.Errorf("%s: the task's states are %v, want %v among them", url, states, want)
			}
		}
	}
	if code, body := get(t, h.base+"/readyz"); code != 200 {
		t.Errorf("/readyz answers %d %q, want 200", code, body)
	}
}

func checkClock(t *testing.T, h *host) {
	t.Helper()
	for url, tool := range map[string]string{
		h.base + "/mcp":       "clock__days_between",
		h.base + "/mcp/clock": "days_between",
		fmt.Sprintf("http://127.0.0.1:%d/mcp", sampleClock): "days_between",
	} {
		session := connectMCP(t, url)
		got := callTool[struct{ Days int }](t, session, tool, map[string]any{"from": "2026-01-01", "to": "2026-03-01"})
		if got.Days != 59 {
			t.Errorf("%s: %s says %d days, want 59", url, tool, got.Days)
		}
	}
}

func listening(port int) bool {
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// listenElsewhere has another process listen on a port.
func listenElsewhere(t *testing.T, port int) *exec.Cmd {
	t.Helper()
	return startHelper(t, "listen", strconv.Itoa(port))
}
