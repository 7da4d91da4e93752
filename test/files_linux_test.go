package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTheLastDescriptorsAreNotForLaunches takes the host's file descriptors
// from it: it starts nothing more, and does all else.
func TestTheLastDescriptorsAreNotForLaunches(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, fault("f", ""), fault("g", ""))
	h.waitReady()
	run := func(want int, args ...string) (stderr string) {
		t.Helper()
		_, stderr, code := plughost(t, append(args, "--state-dir", h.stateDir)...)
		if code != want {
			t.Fatalf("plughost %v ended with status %d, want %d: %s", args, code, want, stderr)
		}
		return stderr
	}
	run(0, "stop", "g")
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", h.cmd.Process.Pid))
	check(t, err)
	var before unix.Rlimit
	tight := unix.Rlimit{Cur: uint64(len(open)) + 30}
	check(t, unix.Prlimit(h.cmd.Process.Pid, unix.RLIMIT_NOFILE, nil, &before))
	tight.Max = before.Max
	check(t, unix.Prlimit(h.cmd.Process.Pid, unix.RLIMIT_NOFILE, &tight, nil))

	if stderr := run(1, "start", "g"); !strings.Contains(stderr, "raise its limit") {
		t.Errorf("plughost start writes %q, want what to do", stderr)
	}
	if s := h.status()["f"]; s.State != "ready" {
		t.Errorf("f is %s", s.State)
	}
	run(0, "stop", "f")
	check(t, unix.Prlimit(h.cmd.Process.Pid, unix.RLIMIT_NOFILE, &before, nil))
	run(0, "start", "f", "g")
	h.stop()
}

// TestHostWithTooFewDescriptorsRefusesToRun lets it open hardly more files than the
// logs of its services are: it would come so far that it cannot answer any more.
func TestHostWithTooFewDescriptorsRefusesToRun(t *testing.T) {
	t.Parallel()
	var services []string
	for i := range 20 {
		services = append(services, fault(fmt.Sprintf("f%d", i), ""))
	}
	opts := faultConfig(t, hostOptions{}, services...)
	stateDir := newStateDir(t)
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `ulimit -n 40 && exec "$@"`, "sh",
		filepath.Join(binaries, "plughost"), "run", "--config", opts.config, "--state-dir", stateDir)
	output, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(string(output), "raise its limit") {
		t.Errorf("it ends with %v, want status 1 and what to do: %s", err, output)
	}
	checkNothingLeft(t, stateDir)
}
