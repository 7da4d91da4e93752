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

	"github.com/google/uuid"

	"github.com/plughost/plughost/shared/marker"
)

func TestStatusSaysWhatServicesTake(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, fault("f", "  env = { FAULT_GRANDCHILD = \"plain\" }\n"), fault("stopped", ""))
	h.waitReady()
	if _, stderr, code := plughost(t, "stop", "stopped", "--state-dir", h.stateDir); code != 0 {
		t.Fatal(stderr)
	}
	type status struct {
		Services []struct {
			Service struct{ Name string }
			Usage   *struct {
				MemoryBytes int64
				CPUSeconds  float64
				Processes   int
			}
		}
	}
	s := readJSON[status](t, 0, "status", "--json", "--state-dir", h.stateDir)
	if used := s.Services[0].Usage; used == nil || used.Processes != 2 || used.MemoryBytes < 1<<20 || used.CPUSeconds <= 0 {
		t.Errorf("a service and its child take %+v", used)
	}
	if used := s.Services[1].Usage; used != nil {
		t.Errorf("a service that is stopped takes %+v", used)
	}
	stdout, _, _ := plughost(t, "status", "--state-dir", h.stateDir)
	if !strings.Contains(stdout, "MEMORY") || !strings.Contains(stdout, " MiB ") {
		t.Errorf("for people it is:\n%s", stdout)
	}
	if _, stderr, code := plughost(t, "status", "--watch", "--json", "--state-dir", h.stateDir); code != 2 || stderr == "" {
		t.Errorf("status --watch --json ends with status %d and says %q", code, stderr)
	}
}

func TestStatusOfAServiceHasTheProofOfItsIdentity(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, fault("f", ""), fault("g", ""))
	h.waitReady()
	f := h.status()["f"]
	stdout, stderr, code := plughost(t, "status", "f", "--state-dir", h.stateDir)
	for _, want := range []string{
		"mcp.f is ready\n", "proof            ours, by its birth record\n", fmt.Sprintf("pid              %d\n", f.PID),
		"instance         " + f.Instance + "\n", "marker           service mcp.f of this installation", "birth record     start ", "memory ", "restarts         0\n",
	} {
		if code != 0 || !strings.Contains(stdout, want) || strings.Contains(stdout, "mcp.g") {
			t.Errorf("it ends with status %d, without %q, or with another service, in:\n%s%s", code, want, stdout, stderr)
		}
	}
	if _, stderr, code := plughost(t, "status", "x", "--state-dir", h.stateDir); code != 1 || !strings.Contains(stderr, "there are mcp.f, mcp.g") {
		t.Errorf("of an unknown service it says %q and ends with status %d", stderr, code)
	}
}

func TestStatusWithoutAHostIsTheRegistry(t *testing.T) {
	t.Parallel()
	opts := faultConfig(t, hostOptions{stateDir: newStateDir(t), outliveHost: true}, fault("f", ""), fault("dead", ""))
	h := startHost(t, opts)
	h.waitReady()
	f, dead := h.status()["f"], h.status()["dead"]
	h.kill()
	killPID(t, dead.PID)
	eventually(t, "the other plugin is gone", func() bool { return !alive(dead.PID) })
	type status struct {
		Running   bool
		Instances []found
	}
	s := readJSON[status](t, 1, "status", "--json", "--state-dir", h.stateDir)
	if s.Running || len(s.Instances) != 2 {
		t.Errorf("it says %+v", s)
	}
	for _, left := range s.Instances {
		if ours := left.PID == f.PID; ours != (left.Proof.Verdict == "ours") {
			t.Errorf("of an instance it says %+v", left)
		}
	}
	stdout, stderr, code := plughost(t, "status", "--state-dir", h.stateDir)
	if code != 1 || !strings.Contains(stdout, fmt.Sprint(f.PID)) || !strings.Contains(stderr, "start one with 'plughost run") {
		t.Errorf("for people it ends with status %d and writes:\n%s%s", code, stdout, stderr)
	}
	for _, verb := range []string{"events", "reload", "start f", "stop f", "restart f"} {
		args := append(strings.Fields(verb), "--state-dir", h.stateDir)
		if _, stderr, code := plughost(t, args...); code != 1 || !strings.Contains(stderr, "no host is running on") || !strings.Contains(stderr, "start one with") {
			t.Errorf("%s ends with status %d and says %q", verb, code, stderr)
		}
	}
}

func TestVerbsSayWhatTheyDid(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, fault("f", ""))
	h.waitReady()
	verb := func(args ...string) string {
		t.Helper()
		stdout, stderr, code := plughost(t, append(args, "--state-dir", h.stateDir)...)
		if code != 0 || stderr != "" {
			t.Errorf("%q ends with status %d and says %q", args, code, stderr)
		}
		return stdout
	}
	pid := func() int { return h.status()["f"].PID }
	first := pid()
	if got, want := verb("start", "f"), fmt.Sprintf("mcp.f is running already: it is ready, pid %d.\n", first); got != want {
		t.Errorf("start says %q, want %q", got, want)
	}
	if got, want := verb("restart", "f"), fmt.Sprintf("Restarted mcp.f: pid %d instead of %d, ready after ", pid(), first); !strings.HasPrefix(got, want) {
		t.Errorf("restart says %q, want %q", got, want)
	}
	if got, want := verb("stop", "f"), "Stopped mcp.f: nothing of it is left, after "; !strings.HasPrefix(got, want) {
		t.Errorf("stop says %q, want %q", got, want)
	}
	if got, want := verb("stop", "f"), "mcp.f was not running.\n"; got != want {
		t.Errorf("a second stop says %q, want %q", got, want)
	}
	if got, want := verb("start", "f", "--no-wait"), "Asked to start mcp.f.\n"; got != want {
		t.Errorf("start --no-wait says %q, want %q", got, want)
	}
	h.waitState("f", "ready")
}

// offers are what a shell would offer for the last argument.
func offers(t *testing.T, args ...string) []string {
	t.Helper()
	stdout, _, code := plughost(t, append([]string{"__completeNoDesc"}, args...)...)
	if code != 0 {
		t.Errorf("the completion of %q ends with status %d", args, code)
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	return lines[:len(lines)-1] // without the directive
}

func TestNamesOfServicesAreCompleted(t *testing.T) {
	t.Parallel()
	opts := faultConfig(t, hostOptions{stateDir: newStateDir(t), outliveHost: true}, fault("alpha", ""), fault("alps", ""), fault("beta", ""))
	h := startHost(t, opts)
	h.waitReady()
	state := []string{"--state-dir", h.stateDir}
	for _, test := range []struct{ args, want []string }{
		{[]string{"restart", "al"}, []string{"alpha", "alps"}},
		{[]string{"logs", "-f", ""}, []string{"alpha", "alps", "beta"}},
		{[]string{"stop", "alpha", "al"}, []string{"alps"}},
		{[]string{"status", "x"}, []string{}},
	} {
		args := append(slices.Clone(test.args[:1]), append(state, test.args[1:]...)...)
		if got := offers(t, args...); !slices.Equal(got, test.want) {
			t.Errorf("%q is completed by %q, want %q", test.args, got, test.want)
		}
	}
	h.signal(syscall.SIGKILL)
	h.waitExit()
	if got, want := offers(t, "logs", "--state-dir", h.stateDir, "al"), []string{"alpha", "alps"}; !slices.Equal(got, want) {
		t.Errorf("without a host it is completed by %q, want %q", got, want)
	}
	if got := offers(t, "logs", "--state-dir", filepath.Join(t.TempDir(), "none"), ""); len(got) != 0 {
		t.Errorf("without an installation it is completed by %q", got)
	}
}

func TestAHostThatStartsIsToldFromNone(t *testing.T) {
	t.Parallel()
	stateDir, id := newStateDir(t), marker.Identity{Kind: marker.KindHost, Installation: uuid.NewString()}
	starting := startMarked(t, id)
	writeFile(t, filepath.Join(stateDir, "installation"), id.Installation+"\n", 0o600)
	for pid, want := range map[int]string{starting.Process.Pid: "takes no requests: it is starting", os.Getpid(): "no host is running"} {
		writeFile(t, filepath.Join(stateDir, "lock"), fmt.Sprintln(pid), 0o600)
		if _, stderr, code := plughost(t, "reload", "--state-dir", stateDir); code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("with the pid %d in the lock it ends with status %d and says %q, want %q", pid, code, stderr, want)
		}
	}
}
