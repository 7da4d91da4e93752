//go:build unix

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// keepBody has a service outlive its host.
const keepBody = "\n  on_host_exit = \"keep\"\n  orphan_ttl   = \"10m\"\n"

// checkSame checks that services run in the very processes of before.
func checkSame(t *testing.T, before, after map[string]serviceStatus) {
	t.Helper()
	for name, was := range before {
		if is := after[name]; is.PID != was.PID || is.Instance != was.Instance || is.State != "ready" {
			t.Errorf("%s is %s with pid %d, instance %s, want ready with pid %d, instance %s",
				name, is.State, is.PID, is.Instance, was.PID, was.Instance)
		}
	}
}

// TestKeptServicesAreTakenOver kills the host again and again: its services go
// on, with clients of their own, and each next host takes them over whole.
func TestKeptServicesAreTakenOver(t *testing.T) {
	t.Parallel()
	port := freePorts(t, 1)[0]
	opts := faultConfig(t, hostOptions{stateDir: newStateDir(t)},
		fault("f", fmt.Sprintf("%s  port = %d\n", keepBody, port)),
		fmt.Sprintf("service \"mcp\" \"clock\" {\n  command = [%q]\n%s}\n", filepath.Join(binaries, "mcp-example"), keepBody),
		fmt.Sprintf("service \"agent\" \"assistant\" {\n  command = [%q]\n  depends_on = [service.mcp.clock]\n  tools {\n    allow = [\"clock/*\"]\n  }\n%s}\n",
			filepath.Join(binaries, "agent-example"), keepBody))
	h := startHost(t, opts)
	h.waitReady()
	first := h.status()

	for round := range 3 {
		h.kill()
		for name, s := range first {
			if !alive(s.PID) {
				t.Fatalf("%s ended with its host", name)
			}
		}
		// What it writes before it has seen that its host is gone may fail.
		eventually(t, "its output goes to a file", func() bool {
			files, err := filepath.Glob(filepath.Join(h.stateDir, "run", "*", fmt.Sprintf("output.%d.log", round+1)))
			check(t, err)
			return slices.ContainsFunc(files, func(path string) bool {
				instance := strings.ReplaceAll(first["f"].Instance, "-", "")
				return strings.Contains(instance, filepath.Base(filepath.Dir(path)))
			})
		})
		// It serves on, and whatever it writes does not stop it: this is more
		// than any pipe holds.
		direct := connectMCP(t, fmt.Sprintf("http://127.0.0.1:%d/mcp", port))
		flood := []byte(strings.Repeat("flood ", 5<<10) + "\n")
		for _, o := range outputs {
			writeTo(t, direct, o.stream, o.library, flood, 3)
			writeTo(t, direct, o.stream, o.library, fmt.Appendf(nil, "without a host, %s, round %d\n", outputName(o.stream, o.library), round), 1)
		}

		h = startHost(t, opts)
		h.waitReady()
		checkSame(t, first, h.status())
		h.waitCount("took over what an earlier host left running", len(first))
		if _, answer := ask(t, h.base+"/a2a/assistant", "How many days between 2026-01-01 and 2026-03-01?"); !strings.Contains(answer, "59") {
			t.Errorf("the agent's answer is %q, want 59 in it", answer)
		}
		session := h.connect(t, "f")
		for _, o := range outputs {
			writeTo(t, session, o.stream, o.library, fmt.Appendf(nil, "with a host, %s, round %d\n", outputName(o.stream, o.library), round), 1)
		}
		var want []logEntry
		for _, o := range outputs {
			name := outputName(o.stream, o.library)
			want = append(want, // what was written without a host is in one file
				logEntry{"stderr", fmt.Sprintf("without a host, %s, round %d", name, round)},
				logEntry{o.stream, fmt.Sprintf("with a host, %s, round %d", name, round)})
		}
		h.checkLogged(t, "f", want)
	}

	// It is supervised as if it had been started by this host.
	killPID(t, first["f"].PID)
	eventually(t, "f was restarted", func() bool {
		s := h.tryStatus()["f"]
		return s.State == "ready" && s.PID != first["f"].PID
	})

	// A service manager's stop leaves them running, a person's does not.
	last := h.status()
	h.stop()
	for name, s := range last {
		if !alive(s.PID) {
			t.Errorf("%s ended with the host's stop", name)
		}
	}
	h = startHost(t, opts)
	h.waitReady()
	checkSame(t, last, h.status())
	h.signal(syscall.SIGINT)
	h.waitExit()
	checkNothingLeft(t, h.stateDir)
}

// TestReloadOfAdoptedServices reloads a host that took its services over: what did
// not change keeps the process of the first host, and what did is restarted.
func TestReloadOfAdoptedServices(t *testing.T) {
	t.Parallel()
	same, changed := fault("same", keepBody), fault("changed", keepBody)
	opts := faultConfig(t, hostOptions{}, same, changed)
	h := startHost(t, opts)
	h.waitReady()
	before := h.status()
	h.kill()
	opts.stateDir = h.stateDir
	h = startHost(t, opts)
	h.waitReady()
	checkSame(t, before, h.status())
	h.plan(0).want(t, "keep same", "keep changed")

	opts.hostBlock = "  log_level = \"debug\"\n"
	h.configure(opts, same, fault("changed", keepBody+"  env = { A = \"2\" }\n"))
	done := h.reload(0)
	done.want(t, "keep same", "restart changed env.A")
	if len(done.HostRestart) > 0 {
		t.Errorf("the host would have to be restarted for %q", done.HostRestart)
	}
	h.waitState("changed", "ready")
	checkSame(t, map[string]serviceStatus{"same": before["same"]}, h.status())
	if alive(before["changed"].PID) {
		t.Error("the changed service's process of before is still there")
	}
	// What is told from this level on is told now.
	h.connect(t, "same")
	h.waitOutput("[DEBUG]")
	h.signal(syscall.SIGINT)
	h.waitExit()
	checkNothingLeft(t, h.stateDir)
}

// checkLogged waits until lines are in a service's log, and checks that each is
// there once.
func (h *host) checkLogged(t *testing.T, service string, want []logEntry) {
	t.Helper()
	counts := make(map[logEntry]int)
	eventually(t, fmt.Sprintf("%q are logged", want), func() bool {
		clear(counts)
		for _, stream := range []string{"stdout", "stderr"} {
			for _, entry := range h.logged(t, service, stream) {
				counts[entry]++
			}
		}
		return !slices.ContainsFunc(want, func(entry logEntry) bool { return counts[entry] == 0 })
	})
	for _, entry := range want {
		if counts[entry] != 1 {
			t.Errorf("%q is logged %d times, want once", entry, counts[entry])
		}
	}
}

// TestKeptServiceThatCannotBeUsedIsReplaced changes something while a kept
// service has no host.
func TestKeptServiceThatCannotBeUsedIsReplaced(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		body string // of the second host's configuration
		// change is given the service as it was, and a copy of the plugin that
		// it runs.
		change func(t *testing.T, s serviceStatus, stateDir, binary string)
		reason string // that is told, or nothing
	}{
		{"another environment", keepBody + "  env = { A = \"2\" }\n", nil, "another configuration"},
		{"another time to live", "\n  on_host_exit = \"keep\"\n", nil, "another configuration"},
		{"no longer to be kept", "", nil, ""},
		{"another binary", keepBody, func(t *testing.T, _ serviceStatus, _, binary string) {
			content, err := os.ReadFile(binary)
			check(t, err)
			check(t, os.Remove(binary))
			check(t, os.WriteFile(binary, append(content, 0), 0o700))
		}, "its binary has changed"},
		{"suspended", keepBody, func(t *testing.T, s serviceStatus, _, _ string) { suspend(t, s.PID) }, "did not answer within"},
		{"its socket is gone", keepBody, func(t *testing.T, _ serviceStatus, stateDir, _ string) {
			check(t, os.Remove(pluginSocket(t, stateDir)))
		}, "it does not listen"},
		{"dead", keepBody, func(t *testing.T, s serviceStatus, _, _ string) {
			killPID(t, s.PID)
			eventually(t, "it is gone", func() bool { return !alive(s.PID) })
		}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			binary := filepath.Join(t.TempDir(), "plugin")
			content, err := os.ReadFile(filepath.Join(binaries, "faultplugin"))
			check(t, err)
			check(t, os.WriteFile(binary, content, 0o700))
			service := func(body string) string {
				return fmt.Sprintf("service \"mcp\" \"f\" {\n  command = [%q]\n%s  stop {\n    grace = \"2s\"\n  }\n}\n", binary, body)
			}
			opts := faultConfig(t, hostOptions{stateDir: newStateDir(t)}, service(keepBody))
			h := startHost(t, opts)
			h.waitReady()
			before := h.status()["f"]
			h.kill()
			if test.change != nil {
				test.change(t, before, h.stateDir, binary)
			}
			check(t, os.WriteFile(opts.config, fmt.Appendf(nil, "host {\n  listen = %q\n}\n%s", opts.gateway, service(test.body)), 0o600))
			h = startHost(t, opts)
			h.waitReady()
			if after := h.status()["f"]; after.PID == before.PID {
				t.Errorf("it still runs as pid %d", after.PID)
			}
			if alive(before.PID) {
				t.Errorf("pid %d of before is still there", before.PID)
			}
			h.waitOutput(test.reason)
			h.signal(syscall.SIGINT)
			h.waitExit()
			checkNothingLeft(t, h.stateDir)
		})
	}
}

// TestKeptServiceEndsWhenItsTimeIsOver never starts another host.
func TestKeptServiceEndsWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	opts := faultConfig(t, hostOptions{}, fault("f", "\n  on_host_exit = \"keep\"\n  orphan_ttl = \"1s\"\n"))
	h := startHost(t, opts)
	h.waitReady()
	f := h.status()["f"]
	h.kill()
	eventually(t, "the service's time is over", func() bool { return !alive(f.PID) })
}
