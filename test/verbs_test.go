//go:build unix

package test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/plughost/plughost/shared/marker"
)

// found is what the read verbs say of a process, as far as the tests look.
type found struct {
	PID      int
	Identity marker.Identity
	Proof    struct {
		Verdict, By, Reason string
		Identity            marker.Identity
	}
	Recorded bool
	Holders  []found
}

func readJSON[T any](t *testing.T, wantCode int, args ...string) T {
	t.Helper()
	stdout, stderr, code := plughost(t, args...)
	if code != wantCode {
		t.Errorf("plughost %s ended with status %d, want %d: %s", strings.Join(args, " "), code, wantCode, stderr)
	}
	var value T
	if err := json.Unmarshal([]byte(stdout), &value); err != nil {
		t.Fatalf("plughost %s: %v in %q", strings.Join(args, " "), err, stdout)
	}
	return value
}

func TestStatusIsWhatTheHostAnswers(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, fault("f", ""), fault("failing", "\n  env = { FAULT_EXIT = \"1\" }\n  restart {\n    policy = \"never\"\n  }\n"))
	h.waitState("f", "ready")
	h.waitState("failing", "failed")
	stdout, stderr, code := plughost(t, "status", "--json", "--state-dir", h.stateDir)
	if code != 0 {
		t.Fatalf("plughost status ended with status %d: %s", code, stderr)
	}
	if got, want := parseStatus(t, stdout), h.status(); !maps.Equal(got, want) {
		t.Errorf("plughost status --json says %+v, want %+v", got, want)
	}
	stdout, stderr, code = plughost(t, "status", "--state-dir", h.stateDir)
	for name, status := range h.status() {
		if code != 0 || !strings.Contains(stdout, name) || !strings.Contains(stdout, status.State) || !strings.Contains(stdout, strings.Join(strings.Fields(status.LastError), " ")) {
			t.Errorf("for people it ends with status %d and writes %q %q, want %+v in it", code, stdout, stderr, status)
		}
	}
}

func TestIdentify(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, fault("f", `
  env = { FAULT_GRANDCHILD = "plain" }
`))
	h.waitReady()
	status := h.status()["f"]
	var grandchild int
	for _, p := range instanceProcesses(t, status.Instance) {
		if p.PID != status.PID {
			grandchild = p.PID
		}
	}
	stranger := startHelper(t, "listen", "0")
	neighbour := startMarked(t, marker.Identity{Kind: marker.KindMCP, Service: "f", Installation: uuid.NewString(), Instance: uuid.NewString()})
	tests := []struct {
		name       string
		pid, code  int
		verdict    string
		by, reason string
		recorded   bool
	}{
		{"a plugin", status.PID, 0, "ours", "birth record", "", true},
		{"its child", grandchild, 0, "ours", "marker", "", false},
		{"the host", h.cmd.Process.Pid, 0, "ours", "marker", "", false},
		{"a stranger", stranger.Process.Pid, 3, "not ours", "marker", "marker", false},
		{"a plugin of another installation", neighbour.Process.Pid, 3, "not ours", "marker", "its marker says mcp f", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := readJSON[found](t, test.code, "identify", "--json", fmt.Sprint(test.pid), "--state-dir", h.stateDir)
			if got.Proof.Verdict != test.verdict || got.Proof.By != test.by || got.Recorded != test.recorded {
				t.Errorf("got %+v, want %s by %s, recorded %v", got, test.verdict, test.by, test.recorded)
			}
			if !strings.Contains(got.Proof.Reason, test.reason) {
				t.Errorf("the reason is %q, want %q in it", got.Proof.Reason, test.reason)
			}
			stdout, _, code := plughost(t, "identify", fmt.Sprint(test.pid), "--state-dir", h.stateDir)
			if want := fmt.Sprintf("Process %d is %s.", test.pid, test.verdict); code != test.code || !strings.Contains(stdout, want) {
				t.Errorf("for people it writes %q and ends with status %d, want %q and %d", stdout, code, want, test.code)
			}
		})
	}
	for _, pid := range []string{"0", "-1", "99999999", "x"} {
		if _, stderr, code := plughost(t, "identify", "--state-dir", h.stateDir, "--", pid); code == 0 || code > 2 || stderr == "" {
			t.Errorf("identify %s ends with status %d and writes %q, want an error", pid, code, stderr)
		}
	}
	// By the registry alone, when no host runs.
	h.stop()
	if got := readJSON[found](t, 3, "identify", "--json", fmt.Sprint(stranger.Process.Pid), "--state-dir", h.stateDir); got.Recorded {
		t.Error("a stranger is recorded")
	}
}

func TestPort(t *testing.T) {
	t.Parallel()
	ports := freePorts(t, 2)
	h := startFaults(t, hostOptions{}, fault("f", fmt.Sprintf("\n  port = %d\n", ports[0])))
	h.waitReady()
	stranger := startHelper(t, "listen", fmt.Sprint(ports[1]))
	for port, want := range map[int]found{
		ports[0]: {PID: h.status()["f"].PID},
		ports[1]: {PID: stranger.Process.Pid},
	} {
		got := readJSON[found](t, 0, "port", "--json", fmt.Sprint(port), "--state-dir", h.stateDir)
		verdict := "not ours"
		if port == ports[0] {
			verdict = "ours"
		}
		if len(got.Holders) != 1 || got.Holders[0].PID != want.PID || got.Holders[0].Proof.Verdict != verdict {
			t.Errorf("port %d is held by %+v, want pid %d, %s", port, got.Holders, want.PID, verdict)
		}
		stdout, _, code := plughost(t, "port", fmt.Sprint(port), "--state-dir", h.stateDir)
		if text := fmt.Sprintf("held by process %d, which is %s", want.PID, verdict); code != 0 || !strings.Contains(stdout, text) {
			t.Errorf("for people it writes %q, want %q in it", stdout, text)
		}
	}
	free := freePorts(t, 1)[0]
	if stdout, _, code := plughost(t, "port", fmt.Sprint(free), "--state-dir", h.stateDir); code != 0 || !strings.Contains(stdout, "Nobody listens") {
		t.Errorf("of a free port it writes %q and ends with status %d", stdout, code)
	}
	if _, stderr, code := plughost(t, "port", "70000"); code != 2 || !strings.Contains(stderr, "1 to 65535") {
		t.Errorf("of port 70000 it writes %q and ends with status %d, want 2", stderr, code)
	}
}

func TestOrphansWithoutAHost(t *testing.T) {
	t.Parallel()
	opts := faultConfig(t, hostOptions{stateDir: newStateDir(t), outliveHost: true}, fault("f", `
  env = { FAULT_GRANDCHILD = "plain" }
`))
	h := startHost(t, opts)
	h.waitReady()
	if orphans := readJSON[[]found](t, 0, "orphans", "--json", "--state-dir", h.stateDir); len(orphans) != 0 {
		t.Errorf("with its host, there are orphans: %+v", orphans)
	}
	instance := h.status()["f"].Instance
	h.kill()
	neighbour := startMarked(t, marker.Identity{Kind: marker.KindAgent, Service: "other", Installation: uuid.NewString(), Instance: uuid.NewString()})

	orphans := readJSON[[]found](t, 0, "orphans", "--json", "--state-dir", h.stateDir)
	if len(orphans) != 2 {
		t.Fatalf("there are %d orphans, want the plugin and its grandchild: %+v", len(orphans), orphans)
	}
	for _, orphan := range orphans {
		if orphan.Identity.Instance != instance {
			t.Errorf("%+v is an orphan, want those of instance %s", orphan, instance)
		}
	}
	all, _, _ := plughost(t, "orphans", "--all", "--state-dir", h.stateDir)
	for _, pid := range []int{orphans[0].PID, orphans[1].PID, neighbour.Process.Pid} {
		if !strings.Contains(all, fmt.Sprint(pid)) {
			t.Errorf("orphans --all does not name pid %d:\n%s", pid, all)
		}
	}

	if _, stderr, code := plughost(t, "orphans", "--all", "--reclaim", "--state-dir", h.stateDir); code != 2 || stderr == "" {
		t.Errorf("orphans --all --reclaim ends with status %d, want 2", code)
	}
	stdout, stderr, code := plughost(t, "orphans", "--reclaim", "--state-dir", h.stateDir)
	if code != 0 || !strings.Contains(stdout, "Ended mcp.f") || !strings.Contains(stdout, "2 processes") {
		t.Errorf("orphans --reclaim ends with status %d and writes %q %q", code, stdout, stderr)
	}
	for _, orphan := range orphans {
		if alive(orphan.PID) {
			t.Errorf("pid %d is still there", orphan.PID)
		}
	}
	if !alive(neighbour.Process.Pid) {
		t.Error("a process of another installation was ended")
	}
	if stdout, _, _ := plughost(t, "orphans", "--reclaim", "--state-dir", h.stateDir); !strings.Contains(stdout, "nothing to reclaim") {
		t.Errorf("a second time it writes %q", stdout)
	}
}

func TestOrphansOfARunningHost(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, fault("f", ""))
	h.waitReady()
	id := marker.Identity{Kind: marker.KindMCP, Service: "f", Installation: installationID(t, h.stateDir), Instance: uuid.NewString()}
	orphan := startMarked(t, id)
	before := h.status()["f"]

	orphans := readJSON[[]found](t, 0, "orphans", "--json", "--state-dir", h.stateDir)
	if len(orphans) != 1 || orphans[0].PID != orphan.Process.Pid {
		t.Errorf("the orphans are %+v, want pid %d", orphans, orphan.Process.Pid)
	}
	if _, stderr, code := plughost(t, "orphans", "--reclaim", "--state-dir", h.stateDir); code != 0 {
		t.Errorf("orphans --reclaim ends with status %d: %s", code, stderr)
	}
	if alive(orphan.Process.Pid) {
		t.Error("the orphan is still there")
	}
	if after := h.status()["f"]; after.Instance != before.Instance || after.State != "ready" {
		t.Errorf("the service is %+v after it, want it untouched", after)
	}
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	type diagnosis struct {
		Coverage struct{ Supported, Hold bool }
		Findings []struct {
			Name, Found, Means string
			Good               bool
		}
	}
	d := readJSON[diagnosis](t, 0, "doctor", "--json", "--state-dir", filepath.Join(t.TempDir(), "none"))
	if !d.Coverage.Supported || !d.Coverage.Hold {
		t.Errorf("the coverage is %+v", d.Coverage)
	}
	stdout, _, _ := plughost(t, "doctor")
	for _, f := range d.Findings {
		if f.Name == "" || f.Found == "" || f.Means == "" {
			t.Errorf("the finding %+v says too little", f)
		}
		if !strings.Contains(stdout, f.Name) {
			t.Errorf("for people there is no %q", f.Name)
		}
	}
}

// startMarked starts a process that carries a marker and is no plugin.
func startMarked(t *testing.T, id marker.Identity) *exec.Cmd {
	t.Helper()
	return startHelperWith(t, id.Environ(), "listen", "0")
}
