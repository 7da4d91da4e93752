//go:build unix

package test

import (
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plughost/plughost/probes"
)

// TestSlowStartIsWaitedFor has a plugin take more than the minute that
// go-plugin gives a plugin by default. The minute goes by while the other tests
// of the package run.
func TestSlowStartIsWaitedFor(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	h := startFaults(t, hostOptions{}, fault("slow", `
  env = { FAULT_DELAY = "61s" }
  ready {
    timeout = "90s"
  }
`), fault("quick", ""))
	h.waitState("quick", "ready")
	if status := h.status()["slow"]; status.State != "starting" {
		t.Fatalf("the slow service is %+v, want it starting", status)
	}
	t.Parallel() // it pauses here until the others are through
	select {
	case <-h.output.seen("plughost is ready"):
	case <-h.exited:
		t.Fatal("the host ended")
	case <-time.After(90*time.Second + patience):
		t.Fatal("the slow service does not become ready")
	}
	if status := h.status()["slow"]; status.State != "ready" || status.Restarts != 0 {
		t.Errorf("the slow service is %+v, want it ready at its first start", status)
	}
	h.connect(t, "slow")
}

// However many services are slow to start, they start side by side within a
// bound, what is ready is served, and the front answers for those that are not.
func TestSlowStartsHoldUpNobody(t *testing.T) {
	t.Parallel()
	services := []string{fault("fast", "")}
	for i := range 30 {
		services = append(services, fault(fmt.Sprintf("slow-%d", i), "  env = { FAULT_DELAY = \"1s\" }\n"))
	}
	h := startFaults(t, hostOptions{hostBlock: "  start_limit = 10\n"}, services...)
	pid := h.waitState("fast", "ready").PID
	if got := pidOf(t, connectMCP(t, h.base+"/mcp"), "fast__pid"); got != float64(pid) {
		t.Errorf("the plugin is %v, want %d", got, pid)
	}
	if _, err := tryConnect(t, h.base+"/mcp/slow-29", "2025-11-25", nil); err == nil || !strings.Contains(err.Error(), "service slow-29 cannot be called") {
		t.Errorf("who wants the last of the slow services is told %v", err)
	}
	if code, body := get(t, h.base+"/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("while services start /readyz answers %d: %s", code, body)
	}
	starting := 0
	for _, status := range h.status() {
		if status.State == "starting" {
			starting++
		}
	}
	if starting > 10 {
		t.Errorf("%d services are starting at once", starting)
	}
	h.waitReady()
	if code, body := get(t, h.base+"/readyz"); code != http.StatusOK {
		t.Errorf("when all are ready /readyz answers %d: %s", code, body)
	}
}

// TestHostIsStoppedDuringAStart stops a host when some services are on their
// way, and others elsewhere.
func TestHostIsStoppedDuringAStart(t *testing.T) {
	t.Parallel()
	slow := newFamily(t)
	h := startFaults(t, hostOptions{},
		fault("slow", fmt.Sprintf(`
  env = { %s, FAULT_DELAY = "1h", FAULT_GRANDCHILD = "stubborn daemon" }
  ready {
    timeout = "2h"
  }
  stop {
    grace = "1h"
  }
`, slow.env())),
		fault("waiting", "\n  depends_on = [service.mcp.slow]\n"),
		fault("failing", "\n  env = { FAULT_EXIT = \"1\" }\n  restart {\n    delay     = \"1h\"\n    max_delay = \"1h\"\n  }\n"),
		fault("quick", ""),
	)
	pids := append(slow.wait("plugin", 1), slow.wait("grandchild", 1)...)
	h.waitState("quick", "ready")
	h.waitState("failing", "backoff")
	slow.checkAlive("in its start", pids)
	h.stop()
	slow.checkGone("after the host's end")
	checkNothingLeft(t, h.stateDir)
}

// TestServiceIsStoppedDuringItsStart stops the service instead.
func TestServiceIsStoppedDuringItsStart(t *testing.T) {
	t.Parallel()
	slow := newFamily(t)
	h := startFaults(t, hostOptions{}, fault("slow", fmt.Sprintf(`
  env = { %s, FAULT_DELAY = "1h", FAULT_GRANDCHILD = "stubborn" }
  ready {
    timeout = "2h"
  }
`, slow.env())))
	slow.wait("grandchild", 1)
	if _, stderr, code := plughost(t, "stop", "slow", "--state-dir", h.stateDir); code != 0 {
		t.Errorf("plughost stop ended with status %d: %s", code, stderr)
	}
	slow.checkGone("after the stop")
	if status := h.status()["slow"]; status.State != "stopped" {
		t.Errorf("the service is %+v, want it stopped", status)
	}
	h.stop()
	checkNothingLeft(t, h.stateDir)
}

// checkNothingLeft checks that a host that has ended left no process and no
// socket.
func checkNothingLeft(t *testing.T, stateDir string) {
	t.Helper()
	checkNothingRuns(t, stateDir)
	err := filepath.WalkDir(stateDir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type() == fs.ModeSocket {
			t.Errorf("the socket %s is still there", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func checkNothingRuns(t *testing.T, stateDir string) {
	t.Helper()
	found, err := probes.List(t.Context(), probes.Filter{Installation: installationID(t, stateDir)})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range found {
		t.Errorf("pid %d of %s is still there", p.PID, p.Identity)
	}
}

// TestHostIsKilledWhileItStartsServices kills the host when so many of its
// services have a process; others are recorded and have none yet.
func TestHostIsKilledWhileItStartsServices(t *testing.T) {
	t.Parallel()
	const n = 10
	for _, spawned := range []int{1, 5, n} {
		t.Run(fmt.Sprint(spawned), func(t *testing.T) {
			t.Parallel()
			old := newFamily(t)
			var slow, quick []string
			for i := range n {
				name := fmt.Sprintf("f%d", i)
				slow = append(slow, fault(name, fmt.Sprintf(`
  env = { %s, FAULT_DELAY = "1h", FAULT_GRANDCHILD = "daemon" }
  ready {
    timeout = "2h"
  }
`, old.env())))
				quick = append(quick, fault(name, ""))
			}
			stateDir := newStateDir(t)
			h := startFaults(t, hostOptions{stateDir: stateDir, outliveHost: true}, slow...)
			old.wait("plugin", spawned)
			h.kill()

			h = startFaults(t, hostOptions{stateDir: stateDir}, quick...)
			h.waitReady()
			old.checkGone("after the next start")
			current := make(map[int]bool)
			for _, status := range h.status() {
				current[status.PID] = true
			}
			found, err := probes.List(t.Context(), probes.Filter{Installation: installationID(t, stateDir)})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range found {
				if !current[p.PID] {
					t.Errorf("pid %d of %s is of no current instance", p.PID, p.Identity)
				}
			}
			h.stop()
			old.checkGone("after the host's end")
			checkNothingLeft(t, stateDir)
		})
	}
}

// TestHalfMadeHandshakeFailsTheStart has plugins say something else than they
// should, and hang.
func TestHalfMadeHandshakeFailsTheStart(t *testing.T) {
	t.Parallel()
	// A server of somebody else's, which no plugin can point the host at.
	path := filepath.Join(newStateDir(t), "stranger.sock")
	stranger, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()

	handshakes := map[string]string{
		"nothing":        " ",
		"cut":            "1|1|unix",
		"other-core":     "99|1|unix|$DIR/mute.sock|grpc",
		"other-version":  "1|99|unix|$DIR/mute.sock|grpc",
		"huge-version":   "1|99999999999999999999|unix|$DIR/mute.sock|grpc",
		"netrpc":         "1|1|unix|$DIR/mute.sock|netrpc",
		"no-protocol":    "1|1|unix|$DIR/mute.sock",
		"no-network":     "1|1||$DIR/mute.sock|grpc",
		"other-network":  "1|1|carrier-pigeon|$DIR/mute.sock|grpc",
		"tcp":            "1|1|tcp|127.0.0.1:1|grpc",
		"no-address":     "1|1|unix||grpc",
		"missing-socket": "1|1|unix|$DIR/missing.sock|grpc",
		"a-directory":    "1|1|unix|$DIR|grpc",
		"stranger":       "1|1|unix|" + path + "|grpc",
		"way-out":        "1|1|unix|$DIR/../../../stranger.sock|grpc",
		"mute":           "1|1|unix|$DIR/mute.sock|grpc",
		"certificate":    "1|1|unix|$DIR/mute.sock|grpc|bm9uc2Vuc2U=",
		"multiplexing":   "1|1|unix|$DIR/mute.sock|grpc||perhaps",
	}
	hanging := []string{"nothing", "cut", "huge-version", "mute", "certificate", "multiplexing"}
	var services []string
	families := make(map[string]family)
	for name, line := range handshakes {
		timeout := "30s"
		if slices.Contains(hanging, name) {
			timeout = "2s"
		}
		families[name] = newFamily(t)
		services = append(services, fault(name, fmt.Sprintf(`
  env = { %s, FAULT_HANDSHAKE = %q, FAULT_GRANDCHILD = "stubborn" }
  ready {
    timeout = %q
  }
  restart {
    policy = "never"
  }
`, families[name].env(), line, timeout)))
	}
	h := startFaults(t, hostOptions{}, append(services, fault("healthy", ""))...)
	for name := range handshakes {
		status := h.waitState(name, "failed")
		if status.LastError == "" {
			t.Errorf("%s: nothing says why it failed", name)
		}
		families[name].checkGone(name)
	}
	if status := h.waitState("healthy", "ready"); status.Restarts != 0 {
		t.Errorf("the healthy service is %+v, want it untouched", status)
	}
	if err := stranger.(*net.UnixListener).SetDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if conn, err := stranger.Accept(); err == nil {
		conn.Close()
		t.Error("the host connected to a stranger's socket")
	}
	h.stop()
	checkNothingLeft(t, h.stateDir)
}

// TestStateDirectoryOfAnyLength puts the state directory where its path is
// about as long as the address of a socket can be, or longer.
func TestStateDirectoryOfAnyLength(t *testing.T) {
	t.Parallel()
	for _, length := range []int{60, 65, 66, 67, 68, 69, 70, 71, 72, 92, 107, 108, 240} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			t.Parallel()
			base := newStateDir(t)
			longTemp := filepath.Join(t.TempDir(), strings.Repeat("t", 120))
			check(t, os.Mkdir(longTemp, 0o700))
			pad := length - len(base) - 1
			if pad < 1 {
				t.Skipf("temporary directories have longer paths here: %s", base)
			}
			stateDir := filepath.Join(base, strings.Repeat("d", pad))
			t.Cleanup(func() { sweep(t, stateDir) })
			opts := hostOptions{stateDir: stateDir, env: []string{"TMPDIR=" + longTemp}}
			opts = faultConfig(t, opts, fault("f", "\n  stop {\n    grace = \"1s\"\n  }\n"))
			h := startHost(t, opts)
			h.waitReady()
			h.connect(t, "f").Close()
			if length%2 == 0 {
				// Crashes leave sockets, which the next start removes.
				h.kill()
				h = startHost(t, opts)
				h.waitReady()
			}
			h.stop()
			checkNothingLeft(t, stateDir)
			id := strings.ReplaceAll(installationID(t, stateDir), "-", "")
			if left, _ := filepath.Glob("/tmp/plughost-" + id[:16] + "*"); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if entries, err := os.ReadDir(longTemp); err != nil || len(entries) > 0 {
				t.Errorf("left behind in TMPDIR: %v (%v)", entries, err)
			}
		})
	}
}

// TestHurriedStop gives a host that ends a second signal.
func TestHurriedStop(t *testing.T) {
	t.Parallel()
	f := newFamily(t)
	opts := faultConfig(t, hostOptions{hostBlock: "  shutdown {\n    timeout = \"1h\"\n  }\n"}, fault("f", fmt.Sprintf(`
  env = { %s, FAULT_GRANDCHILD = "stubborn" }
  stop {
    grace = "1h"
  }
`, f.env())))
	h := startHost(t, opts)
	h.waitReady()
	f.wait("grandchild", 1)
	h.signal(syscall.SIGTERM)
	f.checkAlive("with an hour's grace", f.wait("signalled", 1))
	h.stop() // the second one
	f.checkGone("after the second signal")
	checkNothingLeft(t, h.stateDir)
}

// TestReadyServiceIsServed calls a service as soon as it is said to be ready.
func TestReadyServiceIsServed(t *testing.T) {
	t.Parallel()
	for i := range 5 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			h := startFaults(t, hostOptions{}, fault("f", ""))
			h.waitReady()
			callTool[struct{ PID int }](t, connectMCP(t, h.base+"/mcp/f"), "pid", map[string]any{})
			for range 5 {
				if _, stderr, code := plughost(t, "restart", "f", "--state-dir", h.stateDir); code != 0 {
					t.Fatalf("plughost restart ended with status %d: %s", code, stderr)
				}
				callTool[struct{ PID int }](t, connectMCP(t, h.base+"/mcp/f"), "pid", map[string]any{})
			}
			h.stop()
		})
	}
}

// TestRefusedHandshakeIsTheReason has handshakes refused, and looks for the
// reason in what the service says of its failure.
func TestRefusedHandshakeIsTheReason(t *testing.T) {
	t.Parallel()
	const body = "\n  env = { FAULT_HANDSHAKE = %q }\n  restart {\n    policy = \"never\"\n  }\n"
	var services []string
	for i := range 10 {
		services = append(services,
			fault(fmt.Sprintf("address%d", i), fmt.Sprintf(body, "1|1|unix|/nowhere|grpc")),
			fault(fmt.Sprintf("version%d", i), fmt.Sprintf(body, "1|99|unix|$DIR/mute.sock|grpc")))
	}
	h := startFaults(t, hostOptions{}, services...)
	for i := range 10 {
		for name, want := range map[string]string{"address": "not in its directory", "version": "the plugin speaks version 99"} {
			if status := h.waitState(fmt.Sprintf("%s%d", name, i), "failed"); !strings.Contains(status.LastError, want) {
				t.Errorf("the last error of %s%d is %q, want %q in it", name, i, status.LastError, want)
			}
		}
	}
}
