//go:build unix

package test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/plughost/plughost/probes"
)

// fault is a service block that runs the fault plugin. A busy machine gets more
// time for its start than the default, unless body says how much.
func fault(name, body string) string {
	if raceEnabled && !strings.Contains(body, "inherit") {
		body = fmt.Sprintf("  inherit = [%q]\n", envRace) + body
	}
	if !strings.Contains(body, "ready") {
		body = fmt.Sprintf("  ready {\n    timeout = %q\n  }\n", patience) + body
	}
	return fmt.Sprintf("service \"mcp\" %q {\n  command = [%q]\n%s\n}\n", name, filepath.Join(binaries, "faultplugin"), body)
}

// startFaults starts a host with the given service blocks.
func startFaults(t *testing.T, opts hostOptions, services ...string) *host {
	t.Helper()
	opts = faultConfig(t, opts, services...)
	return startHost(t, opts)
}

func faultConfig(t *testing.T, opts hostOptions, services ...string) hostOptions {
	t.Helper()
	opts.gateway = fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)[0])
	opts.config = writeConfig(t, fmt.Sprintf("host {\n  listen = %q\n%s}\n", opts.gateway, opts.hostBlock)+strings.Join(services, ""))
	return opts
}

// instanceProcesses are the processes that carry an instance's marker.
func instanceProcesses(t *testing.T, instance string) []probes.Found {
	t.Helper()
	found, err := probes.List(t.Context(), probes.Filter{Instance: instance})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestTwoRestartsAtOnceGiveOneInstance(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, fault("f", ""))
	h.waitReady()
	before := h.status()["f"]
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if _, stderr, code := plughost(t, "restart", "f", "--state-dir", h.stateDir); code != 0 {
				t.Errorf("plughost restart ended with status %d: %s", code, stderr)
			}
		})
	}
	wg.Wait()
	after := h.waitState("f", "ready")
	if after.Instance == before.Instance {
		t.Error("the instance is still the same")
	}
	if alive(before.PID) {
		t.Error("the old instance is still there")
	}
	id := installationID(t, h.stateDir)
	found, err := probes.List(t.Context(), probes.Filter{Installation: id})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].PID != after.PID {
		t.Errorf("processes of the installation are %v, want just pid %d", found, after.PID)
	}
}

func TestServiceThatAlwaysFails(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, fault("f", `
  env = { FAULT_EXIT = "1" }
  restart {
    delay  = "10ms"
    factor = 2
    jitter = 0
    limit  = 4
    within = "10m"
  }
`), fault("healthy", ""))
	status := h.waitState("f", "failed")
	if !strings.Contains(status.LastError, "gave up after 5 failures") || !strings.Contains(status.LastError, "exit status 1") {
		t.Errorf("the last error is %q, want it to say how often and why", status.LastError)
	}
	if status.Restarts != 4 {
		t.Errorf("%d restarts, want 4", status.Restarts)
	}
	if got := pidOf(t, connectMCP(t, h.base+"/mcp"), "healthy__pid"); got != float64(h.waitState("healthy", "ready").PID) {
		t.Errorf("meanwhile the healthy one is served by pid %v", got)
	}

	// The delays grow, and each failure is told once.
	for _, delay := range []string{"next_try=10ms", "next_try=20ms", "next_try=40ms", "next_try=80ms"} {
		h.waitCount(delay, 1)
	}
	eventually(t, "the plugin's last words are in its log 5 times", func() bool {
		logged, _, code := plughost(t, "logs", "f", "--state-dir", h.stateDir)
		return code == 0 && strings.Count(logged, "ERROR the fault plugin exits with status 1") == 5
	})

	// A start that is asked for begins anew, and tells how it went.
	_, stderr, code := plughost(t, "start", "f", "--state-dir", h.stateDir)
	if code != 1 || !strings.Contains(stderr, "exit status 1") {
		t.Errorf("plughost start ended with status %d and wrote %q, want 1 and the reason", code, stderr)
	}
	if status := h.waitState("f", "failed"); status.Restarts != 9 {
		t.Errorf("%d restarts, want 9 after the second series", status.Restarts)
	}
}

func TestHostKilledWithManyServices(t *testing.T) {
	t.Parallel()
	const n = 20
	ports := freePorts(t, n)
	services := make([]string, n)
	for i, port := range ports {
		services[i] = fault(fmt.Sprintf("f%d", i), fmt.Sprintf(`
  port  = %d
  env   = { FAULT_GRANDCHILD = "stubborn" }
  stop  {
    grace = "1s"
  }
`, port))
	}
	opts := faultConfig(t, hostOptions{stateDir: newStateDir(t), outliveHost: true}, services...)
	h := startHost(t, opts)
	h.waitReady()
	var old []int
	for name, status := range h.status() {
		processes := instanceProcesses(t, status.Instance)
		if len(processes) != 2 {
			t.Fatalf("%s has %d processes, want the plugin and its grandchild", name, len(processes))
		}
		for _, p := range processes {
			old = append(old, p.PID)
		}
	}
	h.kill()
	for _, pid := range old {
		if !alive(pid) {
			t.Fatalf("pid %d did not outlive the host: the test tests nothing", pid)
		}
	}

	h = startHost(t, opts)
	h.waitReady()
	for _, pid := range old {
		if alive(pid) {
			t.Errorf("pid %d of before is still there", pid)
		}
	}
	for name, status := range h.status() {
		session := connectMCP(t, fmt.Sprintf("http://127.0.0.1:%d/mcp", status.Port))
		if got := callTool[struct{ PID int }](t, session, "pid", map[string]any{}); got.PID != status.PID {
			t.Errorf("port %d of %s is served by pid %d, want the new instance's %d", status.Port, name, got.PID, status.PID)
		}
	}
	var all []int
	for _, status := range h.status() {
		for _, p := range instanceProcesses(t, status.Instance) {
			all = append(all, p.PID)
		}
	}
	h.stop()
	for _, pid := range all {
		if alive(pid) {
			t.Errorf("pid %d outlived the stop", pid)
		}
	}
}

func TestSecondHostIsRefused(t *testing.T) {
	t.Parallel()
	opts := faultConfig(t, hostOptions{stateDir: newStateDir(t)}, fault("f", ""))
	h := startHost(t, opts)
	h.waitReady()
	_, stderr, code := plughost(t, "run", "--config", opts.config, "--state-dir", opts.stateDir)
	if want := fmt.Sprintf("pid %d", h.cmd.Process.Pid); code != 1 || !strings.Contains(stderr, want) {
		t.Errorf("a second host ended with status %d and wrote %q, want 1 and %q", code, stderr, want)
	}
	if status := h.status()["f"]; status.State != "ready" || status.Restarts != 0 {
		t.Errorf("after it the service is %+v, want it untouched", status)
	}
}

func TestLongStateDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(newStateDir(t), strings.Repeat("d", 120))
	h := startFaults(t, hostOptions{stateDir: dir}, fault("f", ""))
	h.waitReady()
	h.stop()
}

func TestCrashedPluginIsReplaced(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, fault("f", `
  env = { FAULT_GRANDCHILD = "stubborn" }
  stop {
    grace = "500ms"
  }
  restart {
    delay = "10ms"
  }
`))
	h.waitReady()
	session := connectMCP(t, h.base+"/mcp/f")
	for crash := range 3 {
		before := h.waitState("f", "ready")
		processes := instanceProcesses(t, before.Instance)
		killPID(t, before.PID)
		eventually(t, "there is a new instance", func() bool {
			s := h.status()["f"]
			return s.State == "ready" && s.Instance != before.Instance
		})
		for _, p := range processes {
			if alive(p.PID) {
				t.Errorf("crash %d: pid %d of the old instance is still there", crash, p.PID)
			}
		}
		// The client's session goes on.
		after := h.status()["f"]
		eventually(t, "the session is served again", func() bool {
			result, err := session.CallTool(t.Context(), callParams("pid"))
			return err == nil && !result.IsError
		})
		if got := callTool[struct{ PID int }](t, session, "pid", map[string]any{}); got.PID != after.PID {
			t.Errorf("crash %d: the call was served by pid %d, want %d", crash, got.PID, after.PID)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	stateDir := newStateDir(t)
	missing := filepath.Join(t.TempDir(), "missing.hcl")
	bad := writeConfig(t, "service \"mcp\" \"a\" {\n  comand = [\"sh\"]\n}\n")
	tests := []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"an unknown command", []string{"stauts"}, 2, []string{`unknown command "stauts"`, "plughost help"}},
		{"an unknown flag", []string{"status", "--jsn"}, 2, []string{"--jsn"}},
		{"too few arguments", []string{"stop"}, 2, []string{"at least 1 arg"}},
		{"no installation", []string{"status", "--state-dir", filepath.Join(stateDir, "none")}, 1, []string{"no plughost state directory", "plughost run"}},
		{"no configuration", []string{"validate", "--config", missing}, 1, []string{missing}},
		{"a bad configuration", []string{"validate", "--config", bad}, 1, []string{bad, "2", "comand", "^^^^^^", `"command"`}},
		{"a bad configuration to run", []string{"run", "--config", bad, "--state-dir", stateDir}, 1, []string{"comand"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, stderr, code := plughost(t, test.args...)
			if code != test.code {
				t.Errorf("exit status %d, want %d", code, test.code)
			}
			for _, want := range test.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("standard error has no %q:\n%s", want, stderr)
				}
			}
		})
	}
}
