package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestReusedPIDIsLeftAlone kills the host and a plugin, and gives the plugin's
// recorded pid to a stranger. A pid can be had at will only in a pid namespace,
// so the test runs itself again as the init of one.
func TestReusedPIDIsLeftAlone(t *testing.T) {
	t.Parallel()
	if os.Getpid() == 1 {
		testReusedPID(t)
		return
	}
	runInPIDNamespace(t, t.Name())
}

// runInPIDNamespace runs one test of this binary as pid 1 of a new namespace,
// with a /proc of its own.
func runInPIDNamespace(t *testing.T, name string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^"+name+"$", "-test.v")
	inPIDNamespace(t, cmd)
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	ports := strings.Trim(fmt.Sprint(freePorts(t, 20)), "[]")
	cmd.Env = append(os.Environ(), envBinaries+"="+binaries, envPorts+"="+ports)
	output, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(output), "--- PASS: "+name) {
		t.Fatalf("in the namespace: %v\n%s", err, output)
	}
}

func testReusedPID(t *testing.T) {
	opts := faultConfig(t, hostOptions{stateDir: newStateDir(t), outliveHost: true}, fault("f", ""))
	h := startHost(t, opts)
	h.waitReady()
	old := h.status()["f"]
	h.kill()
	killPID(t, old.PID)
	// The orphan is this process's child now, as it is of every init.
	if _, err := syscall.Wait4(old.PID, nil, 0, nil); err != nil {
		t.Fatalf("cannot reap the plugin: %v", err)
	}

	log := filepath.Join(t.TempDir(), "signals")
	stranger := startWithPID(t, old.PID, "watch", log)

	h = startHost(t, opts)
	h.waitReady()
	h.waitOutput("its pid is another's now: left alone")
	if fresh := h.status()["f"]; fresh.Instance == old.Instance || fresh.PID == old.PID {
		t.Errorf("the service runs as %+v, want a fresh start", fresh)
	}
	h.stop()

	if !alive(stranger.Process.Pid) {
		t.Error("the stranger is gone")
	}
	if signals, err := os.ReadFile(log); err != nil || len(signals) > 0 {
		t.Errorf("the stranger got signals: %q (%v)", signals, err)
	}
	// The record was dropped: the next start finds nothing to say of it.
	h = startHost(t, opts)
	h.waitReady()
	h.stop()
	if strings.Contains(h.output.String(), "another's now") {
		t.Error("the record is still there")
	}
}

// startWithPID starts a helper under a pid that is free.
func startWithPID(t *testing.T, pid int, args ...string) *exec.Cmd {
	t.Helper()
	for range 100 {
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0); err != nil {
			t.Fatal(err)
		}
		// Threads take pids too: another one may have been faster.
		cmd := startHelper(t, args...)
		if cmd.Process.Pid == pid {
			return cmd
		}
	}
	t.Fatalf("pid %d cannot be had", pid)
	return nil
}
