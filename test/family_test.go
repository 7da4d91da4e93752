//go:build unix

package test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/plughost/plughost/probes"
)

// family is a fault plugin and its grandchildren, which report themselves in a
// directory: by it they are known even if they carry no marker.
type family struct {
	t   *testing.T
	dir string
}

// newFamily makes a family to be. What is left of it at the end of the test is
// killed.
func newFamily(t *testing.T) family {
	t.Helper()
	f := family{t, t.TempDir()}
	t.Cleanup(func() {
		for _, pid := range f.pids() {
			if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && strings.HasPrefix(exe, binaries) && alive(pid) {
				killPID(t, pid)
			}
		}
	})
	return f
}

// env is the entry for a service's env.
func (f family) env() string { return fmt.Sprintf("FAULT_PIDS = %q", f.dir) }

// reported are the pids of those who reported one thing; all if it is empty.
func (f family) reported(what string) []int {
	f.t.Helper()
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	var pids []int
	for _, entry := range entries {
		name, number, _ := strings.Cut(entry.Name(), "-")
		pid, err := strconv.Atoi(number)
		if err != nil {
			f.t.Fatalf("%s: %v", entry.Name(), err)
		}
		if what == "" || name == what {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

func (f family) pids() []int { return f.reported("") }

// wait waits until so many have reported something, and returns them.
func (f family) wait(what string, n int) []int {
	f.t.Helper()
	var pids []int
	eventually(f.t, fmt.Sprintf("%d have reported %s", n, what), func() bool {
		pids = f.reported(what)
		return len(pids) >= n
	})
	return pids
}

// checkAlive makes sure that a test tests something.
func (f family) checkAlive(what string, pids []int) {
	f.t.Helper()
	for _, pid := range pids {
		if !alive(pid) {
			f.t.Fatalf("%s: pid %d is gone already: the test tests nothing", what, pid)
		}
	}
}

// checkGone checks that nobody who ever reported lives.
func (f family) checkGone(what string) {
	f.t.Helper()
	checkGone(f.t, what, f.pids())
}

// checkGone checks that none of these processes lives, but for the given.
func checkGone(t *testing.T, what string, pids []int, but ...int) {
	t.Helper()
	for _, pid := range pids {
		if alive(pid) && !slices.Contains(but, pid) {
			t.Errorf("%s: pid %d is still there", what, pid)
		}
	}
}

// relatives are the kinds of grandchildren that a plugin must not leave.
var relatives = []struct {
	words string
	n     int
	// unmarked ones are found as long as their plugin, or its host, knows the
	// process group.
	unmarked bool
}{
	{words: "plain", n: 1},
	{words: "stubborn", n: 1},
	{words: "stopped", n: 1},
	{words: "heir", n: 1},
	{words: "daemon", n: 1},
	{words: "stubborn daemon", n: 1},
	{words: "stopped daemon", n: 1},
	{words: "heir daemon", n: 1},
	{words: "scrubbed", n: 1, unmarked: true},
	{words: "stubborn scrubbed", n: 1, unmarked: true},
	{words: "stubborn tree", n: 30},
}

// TestNothingOutlivesItsInstance has instances with grandchildren of every kind
// end in every way.
func TestNothingOutlivesItsInstance(t *testing.T) {
	t.Parallel()
	ways := []struct {
		name string
		// end ends an instance, and returns when nothing of it may be left.
		end func(t *testing.T, h *host, name string, before serviceStatus)
	}{
		{"by request", func(t *testing.T, h *host, name string, _ serviceStatus) {
			if _, stderr, code := plughost(t, "stop", name, "--state-dir", h.stateDir); code != 0 {
				t.Errorf("plughost stop %s ended with status %d: %s", name, code, stderr)
			}
		}},
		{"for another one", func(t *testing.T, h *host, name string, before serviceStatus) {
			if _, stderr, code := plughost(t, "restart", name, "--state-dir", h.stateDir); code != 0 {
				t.Errorf("plughost restart %s ended with status %d: %s", name, code, stderr)
			}
			if after := h.status()[name]; after.State != "ready" || after.Instance == before.Instance {
				t.Errorf("%s is %+v, want a new instance", name, after)
			}
		}},
		{"by itself", func(t *testing.T, h *host, name string, _ serviceStatus) {
			session := h.connect(t, name)
			exit := callParams("exit")
			exit.Arguments = map[string]any{"status": 3, "words": "farewell\n"}
			_, _ = session.CallTool(t.Context(), exit)
			if status := h.waitState(name, "failed"); !strings.Contains(status.LastError, "exit status 3") {
				t.Errorf("the last error of %s is %q, want its exit status", name, status.LastError)
			}
		}},
		{"killed", func(t *testing.T, h *host, name string, before serviceStatus) {
			killPID(t, before.PID)
			if status := h.waitState(name, "failed"); !strings.Contains(status.LastError, "killed") {
				t.Errorf("the last error of %s is %q, want the signal", name, status.LastError)
			}
		}},
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			var services []string
			families := make([]family, len(relatives))
			for i, kind := range relatives {
				families[i] = newFamily(t)
				services = append(services, fault(fmt.Sprintf("f%d", i), relativeBody(kind.words, families[i])))
			}
			h := startFaults(t, hostOptions{}, services...)
			h.waitReady()
			statuses := h.status()
			var wg sync.WaitGroup
			for i, kind := range relatives {
				wg.Go(func() {
					name := fmt.Sprintf("f%d", i)
					old := families[i].wait("grandchild", kind.n)
					families[i].checkAlive(kind.words, old)
					way.end(t, h, name, statuses[name])
					checkGone(t, kind.words, append(old, statuses[name].PID))
					// Nor is anybody who came later, unless of a new instance, which
					// may have more and more children.
					later := families[i].pids()
					var but []int
					if status := h.status()[name]; status.Instance != "" {
						for _, p := range instanceProcesses(t, status.Instance) {
							but = append(but, p.PID)
						}
						if kind.unmarked {
							but = append(but, later...)
						}
					}
					checkGone(t, kind.words, later, but...)
				})
			}
			wg.Wait()
			h.stop()
			for i, kind := range relatives {
				families[i].checkGone(kind.words + ", after the host's end")
			}
		})
	}
}

func relativeBody(words string, f family) string {
	return fmt.Sprintf(`
  env = { %s, FAULT_GRANDCHILD = %q }
  stop {
    grace = "300ms"
  }
  restart {
    policy = "never"
  }
`, f.env(), words)
}

// TestNoOrphanOutlivesTheNextStart has the host die, with children that notice
// it and with children that do not.
func TestNoOrphanOutlivesTheNextStart(t *testing.T) {
	t.Parallel()
	for _, outlive := range []bool{false, true} {
		t.Run(fmt.Sprintf("plugins outlive the host %v", outlive), func(t *testing.T) {
			t.Parallel()
			var services []string
			families := make(map[string]family)
			for i, kind := range relatives {
				if kind.unmarked && !outlive {
					continue // nothing proves any more whose it was
				}
				families[kind.words] = newFamily(t)
				services = append(services, fault(fmt.Sprintf("f%d", i), relativeBody(kind.words, families[kind.words])))
			}
			opts := faultConfig(t, hostOptions{stateDir: newStateDir(t), outliveHost: outlive}, services...)
			h := startHost(t, opts)
			h.waitReady()
			old := make(map[string][]int)
			for _, kind := range relatives {
				if f, ok := families[kind.words]; ok {
					old[kind.words] = f.wait("grandchild", kind.n)
				}
			}
			h.kill()
			for words, pids := range old {
				// The kernel hangs up on stopped ones whose group has lost
				// its last parent elsewhere.
				if words != "stopped" {
					families[words].checkAlive(words, pids)
				}
			}

			h = startHost(t, opts)
			h.waitReady()
			for words, pids := range old {
				for _, pid := range pids {
					if alive(pid) {
						t.Errorf("%s: pid %d of before is still there", words, pid)
					}
				}
			}
			h.stop()
			for words, f := range families {
				f.checkGone(words)
			}
		})
	}
}

// TestStoppedPluginIsEnded suspends plugins, which then answer nothing.
func TestStoppedPluginIsEnded(t *testing.T) {
	t.Parallel()
	body := `
  stop {
    grace = "300ms"
  }
`
	h := startFaults(t, hostOptions{}, fault("stop", body), fault("restart", body), fault("end", body))
	h.waitReady()
	before := h.status()
	for _, status := range before {
		suspend(t, status.PID)
	}
	for _, verb := range []string{"stop", "restart"} {
		if _, stderr, code := plughost(t, verb, verb, "--state-dir", h.stateDir); code != 0 {
			t.Errorf("plughost %s ended with status %d: %s", verb, code, stderr)
		}
		if alive(before[verb].PID) {
			t.Errorf("after plughost %s, pid %d is still there", verb, before[verb].PID)
		}
	}
	after := h.status()
	if status := after["stop"]; status.State != "stopped" {
		t.Errorf("the service that was stopped is %+v", status)
	}
	if status := after["restart"]; status.State != "ready" || status.Instance == before["restart"].Instance {
		t.Errorf("the service that was restarted is %+v, want a new instance", status)
	}
	session := h.connect(t, "restart")
	if got := callTool[struct{ PID int }](t, session, "pid", map[string]any{}); got.PID != after["restart"].PID {
		t.Errorf("the call was served by pid %d, want %d", got.PID, after["restart"].PID)
	}
	h.stop()
	if alive(before["end"].PID) {
		t.Error("a suspended plugin outlived the host")
	}
}

// suspend stops a process that belongs to the test.
func suspend(t *testing.T, pid int) {
	t.Helper()
	process, err := probes.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer process.Close()
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}
