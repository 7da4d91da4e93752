package test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

const systemd = "/usr/lib/systemd/systemd"

// TestSystemdRunsTheHost installs a host for a user whose systemd is a real
// one. It runs in namespaces, with a hierarchy of control groups and a /run of
// its own, so the test runs itself again in there.
func TestSystemdRunsTheHost(t *testing.T) {
	if os.Getpid() == 1 {
		testSystemd(t)
		return
	}
	t.Parallel()
	if _, err := os.Stat(systemd); err != nil || os.Geteuid() != 0 {
		t.Skipf("it takes systemd, and root: %v", err)
	}
	runInPIDNamespace(t, t.Name())
}

func testSystemd(t *testing.T) {
	startSystemd(t)
	opts := faultConfig(t, hostOptions{stateDir: newStateDir(t), hostBlock: "  shutdown {\n    timeout = \"7s\"\n  }\n"},
		fault("f", ""), fault("kept", "  on_host_exit = \"keep\"\n"))
	boot := func(args ...string) string {
		t.Helper()
		stdout, stderr, code := plughost(t, append([]string{"boot", "--user", "--state-dir", opts.stateDir}, args...)...)
		if code != 0 {
			t.Fatalf("boot %q ends with status %d: %s%s", args, code, stdout, stderr)
		}
		return stdout
	}
	type status struct {
		Installed, Enabled, Running bool
		PID                         int
		Text                        string
	}
	look := func() status { return readJSON[status](t, 0, "boot", "status", "--user", "--json") }

	boot("install", "--config", opts.config)
	// It returns when the host says that it is ready.
	first := look()
	if want := (status{true, true, true, first.PID, "2 of 2 services ready"}); first != want || first.PID == 0 {
		t.Fatalf("the host is %+v, want %+v", first, want)
	}
	// It keeps to the groups that systemd has handed over.
	h := &host{t: t, stateDir: opts.stateDir}
	kept := h.status()["kept"]
	if group, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", kept.PID)); err != nil || !strings.Contains(string(group), "/plughost.service/plughost.") {
		t.Errorf("the plugin's control group is %q (%v)", group, err)
	}
	systemctl(t, "reload", "plughost")

	// Killed, it comes again, and finds what it left.
	killPID(t, first.PID)
	var second status
	eventually(t, "systemd has started another host", func() bool {
		second = look()
		return second.Running && second.PID != first.PID
	})
	if again := h.status()["kept"]; again.PID != kept.PID {
		t.Errorf("the service that is kept had pid %d, and has %d", kept.PID, again.PID)
	}
	systemctl(t, "restart", "plughost")
	if again := h.status()["kept"]; again.PID != kept.PID {
		t.Errorf("after a restart of the unit, it had pid %d, and has %d", kept.PID, again.PID)
	}

	boot("uninstall")
	if after := look(); after != (status{}) {
		t.Errorf("after the end it is %+v", after)
	}
	if _, stderr, code := plughost(t, "boot", "uninstall", "--user"); code != 1 || !strings.Contains(stderr, "not installed") {
		t.Errorf("a second uninstall ends with status %d and says %q", code, stderr)
	}
	if !alive(kept.PID) {
		t.Error("the service that is kept has ended with its unit")
	}

	// A host that somebody runs takes it over, and ends it.
	h = startHost(t, opts)
	h.waitReady()
	if again := h.status()["kept"]; again.PID != kept.PID {
		t.Errorf("under a host that systemd does not run, it had pid %d, and has %d", kept.PID, again.PID)
	}
	h.signal(syscall.SIGINT)
	h.waitExit()
	checkNothingLeft(t, opts.stateDir)
}

// startSystemd starts the systemd of a user.
func startSystemd(t *testing.T) {
	t.Helper()
	const groups, runtime = "/sys/fs/cgroup", "/run/user"
	_ = syscall.Unmount(groups, syscall.MNT_DETACH)
	if err := syscall.Mount("cgroup2", groups, "cgroup2", 0, ""); err != nil {
		t.Skipf("there is no cgroup v2 to be had: %v", err)
	}
	own := filepath.Join(groups, "plughost-test-"+filepath.Base(t.TempDir())+strconv.Itoa(os.Getppid()))
	join := func(group string) error { return os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte("0"), 0) }
	if err := errors.Join(os.Mkdir(own, 0o755), join(own)); err != nil {
		t.Skipf("control groups cannot be made: %v", err)
	}
	t.Cleanup(func() {
		if err := errors.Join(join(groups), removeGroups(own)); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(syscall.Mount("tmpfs", "/run", "tmpfs", 0, ""), os.MkdirAll("/run/systemd/system", 0o755), os.Mkdir(runtime, 0o700)); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	for name, value := range map[string]string{"XDG_RUNTIME_DIR": runtime, "HOME": home, "XDG_CONFIG_HOME": filepath.Join(home, "config")} {
		t.Setenv(name, value)
	}
	manager := exec.Command(systemd, "--user")
	if err := manager.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endProcess(t, manager) })
	eventually(t, "systemd runs", func() bool {
		state, _ := exec.Command("systemctl", "--user", "is-system-running").Output()
		return slices.Contains([]string{"running\n", "degraded\n"}, string(state))
	})
}

// removeGroups removes a control group and those below it, which are empty.
func removeGroups(top string) error {
	var groups []string
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			groups = append(groups, path)
		}
		return err
	})
	slices.Reverse(groups)
	for _, group := range groups {
		err = errors.Join(err, syscall.Rmdir(group))
	}
	return err
}

func systemctl(t *testing.T, args ...string) {
	t.Helper()
	if output, err := exec.Command("systemctl", append([]string{"--user"}, args...)...).CombinedOutput(); err != nil {
		t.Errorf("systemctl %q: %v: %s", args, err, output)
	}
}

func TestInstallShowsWhatItWouldDo(t *testing.T) {
	t.Parallel()
	stateDir := newStateDir(t)
	opts := faultConfig(t, hostOptions{}, fault("f", ""))
	stdout, stderr, code := plughost(t, "boot", "install", "--print", "--config", opts.config, "--state-dir", stateDir, "--env", "A=b c", "--", "--log-level", "debug")
	for _, want := range []string{
		fmt.Sprintf(`ExecStart=%q "run" "--config" %q "--state-dir" %q "--log-level" "debug"`, filepath.Join(binaries, "plughost"), opts.config, stateDir),
		"Environment=\"A=b c\"\n", "Environment=\"PATH=" + os.Getenv("PATH") + "\"\n", "KillMode=mixed\n", "TimeoutStopSec=45s\n", "WantedBy=multi-user.target\n",
	} {
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("it ends with status %d, without %q in:\n%s%s", code, want, stdout, stderr)
		}
	}
	if entries, err := os.ReadDir(stateDir); err != nil || len(entries) != 0 {
		t.Errorf("it made %v (%v)", entries, err)
	}
	for name, args := range map[string][]string{
		"a bad configuration":        {"--config", filepath.Join(stateDir, "none.hcl")},
		"a variable that is not set": {"--config", opts.config, "--env", "NO_SUCH_7F3"},
		"a user for a user's host":   {"--config", opts.config, "--user", "--run-as", "daemon"},
	} {
		if stdout, stderr, code := plughost(t, append([]string{"boot", "install", "--print"}, args...)...); code == 0 || stdout != "" || stderr == "" {
			t.Errorf("with %s it ends with status %d and writes %q %q", name, code, stdout, stderr)
		}
	}
}
