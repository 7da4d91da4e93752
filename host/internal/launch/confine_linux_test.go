package launch_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/plughost/plughost/host/internal/account"
	"github.com/plughost/plughost/host/internal/cgroup"
	"github.com/plughost/plughost/host/internal/launch"
	"github.com/plughost/plughost/probes"
)

// confined is what a plugin finds itself held to.
type confined struct {
	Soft, Hard  uint64
	Nice        int
	UID, GID    int
	Groups      []int
	NoNewPrivs  int
	DeathSignal int32
	Traced      string
	Exe, Name   string
	Files       []string // its descriptors
	Cgroup      string
	Home        string
	InstanceDir string
	Child       int
}

// envAbandon has the confined plugin start a daemon without an environment.
const envAbandon = "LAUNCH_TEST_ABANDON"

// The death signal is the first thread's, on which only those functions run
// that lock it before main begins.
func init() {
	if os.Getenv(envPlugin) == "confined" {
		runtime.LockOSThread()
	}
}

func tellConfinement() {
	var c confined
	// Go raises the soft limit of each process to the hard one at its start.
	var limit unix.Rlimit
	must(unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	c.Soft, c.Hard = limit.Cur, limit.Max
	// The system call, unlike the function of C, gives 20 minus the value.
	nice, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	must(err)
	c.Nice = 20 - nice
	c.UID, c.GID = os.Geteuid(), os.Getegid()
	c.Groups, err = os.Getgroups()
	must(err)
	c.NoNewPrivs, err = unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	must(err)
	must(prctlGet(unix.PR_GET_PDEATHSIG, &c.DeathSignal))
	c.Traced = statusField("TracerPid")
	c.Exe, err = os.Readlink("/proc/self/exe")
	must(err)
	c.Name = os.Args[0]
	entries, err := os.ReadDir("/proc/self/fd")
	must(err)
	for _, entry := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil {
			c.Files = append(c.Files, target)
		}
	}
	cgroup, err := os.ReadFile("/proc/self/cgroup")
	must(err)
	for line := range strings.Lines(string(cgroup)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			c.Cgroup = path
		}
	}
	c.Home = os.Getenv("HOME")
	c.InstanceDir = os.Getenv("PLUGHOST_INSTANCE_DIR")
	if os.Getenv(envAbandon) != "" {
		c.Child = abandon()
	}
	text, err := json.Marshal(c)
	must(err)
	fmt.Fprintln(os.Stderr, "confined "+string(text))
	serve()
}

// abandon starts a process in a session of its own, with nothing in its
// environment that says whose it is.
func abandon() int {
	cmd := exec.Command("/bin/sleep", "1000")
	cmd.Env = []string{"PATH=/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must(cmd.Start())
	return cmd.Process.Pid
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func prctlGet(option int, value *int32) error {
	_, _, errno := unix.Syscall(unix.SYS_PRCTL, uintptr(option), uintptr(unsafe.Pointer(value)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func statusField(name string) string {
	content, err := os.ReadFile("/proc/self/status")
	must(err)
	for line := range strings.Lines(string(content)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// launchConfined launches the plugin that tells what it is held to. It is
// stopped with the test, and then nothing may be left.
func launchConfined(t *testing.T, l *launch.Launcher, s launch.Spec) (confined, *launch.Instance) {
	t.Helper()
	out := &lines{}
	s.Output = out.add
	inst, err := l.Launch(timeout(t), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := inst.Stop(context.Background(), patience); err != nil {
			t.Error(err)
		}
	})
	// The plugin's output comes by another way than its readiness.
	var told string
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(patience); told == ""; {
		select {
		case <-tick.C:
			told = out.after("stderr: confined ")
		case <-deadline:
			t.Fatalf("the plugin told nothing: %q", out.all)
		}
	}
	var c confined
	if err := json.Unmarshal([]byte(told), &c); err != nil {
		t.Fatal(err)
	}
	return c, inst
}

// publicSpec is spec for those who cannot reach the test's own files.
func publicSpec(t *testing.T) launch.Spec {
	t.Helper()
	dir, err := os.MkdirTemp("", "launch-public-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for parent := filepath.Dir(dir); parent != "/"; parent = filepath.Dir(parent) {
		if info, err := os.Stat(parent); err != nil || info.Mode().Perm()&0o1 == 0 {
			t.Skipf("no other user can reach files below TMPDIR: %s is closed to them (%v)", parent, err)
		}
	}
	s := spec(t, "confined", &lines{})
	copied := filepath.Join(dir, "plugin")
	copyFile(t, copied, s.Path)
	s.Path, s.Dir = copied, "/"
	return s
}

func copyFile(t *testing.T, to, from string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process as another user")
	}
}

func TestLimitsOfAProcessHoldFromItsFirstInstruction(t *testing.T) {
	l := newLauncher(t)
	s := spec(t, "confined", &lines{})
	nice := 13
	s.Confinement.OpenFiles, s.Confinement.Nice = 123, &nice
	c, inst := launchConfined(t, l, s)
	// Go reads the limit before main, so it is what the process began with.
	if c.Soft != 123 || c.Hard != 123 {
		t.Errorf("it may have %d open files, and raise that to %d, want 123", c.Soft, c.Hard)
	}
	if c.Nice != 13 {
		t.Errorf("its priority is %d, want 13", c.Nice)
	}
	if c.Traced != "0" {
		t.Errorf("it is still traced by %s", c.Traced)
	}
	if c.DeathSignal != int32(unix.SIGKILL) {
		t.Errorf("its death signal is %d, want SIGKILL", c.DeathSignal)
	}
	if c.Name != s.Args[0] {
		t.Errorf("it is called by the name %q, want %q", c.Name, s.Args[0])
	}
	if _, err := inst.Stop(timeout(t), patience); err != nil {
		t.Fatal(err)
	}
	checkNothingLeft(t, l)
}

func TestALimitOfOneServiceIsNotAnothers(t *testing.T) {
	l := newLauncher(t)
	s := spec(t, "confined", &lines{})
	s.Confinement.OpenFiles, s.Confinement.NoNewPrivs = 123, true
	launchConfined(t, l, s)
	plain, _ := launchConfined(t, l, spec(t, "confined", &lines{}))
	if plain.Hard == 123 || plain.NoNewPrivs != 0 {
		t.Errorf("a service without limits is held to %+v", plain)
	}
}

func TestALimitThatCannotBeSetLeavesNothing(t *testing.T) {
	l := newLauncher(t)
	s := spec(t, "confined", &lines{})
	s.Confinement.OpenFiles = 1 << 31 // more than the kernel ever allows
	_, err := l.Launch(timeout(t), s)
	if err == nil || !strings.Contains(err.Error(), "limits.open_files") {
		t.Errorf("the error is %v, want one that names limits.open_files", err)
	}
	checkNothingLeft(t, l)
}

func TestNoNewPrivs(t *testing.T) {
	l := newLauncher(t)
	s := spec(t, "confined", &lines{})
	s.Confinement.NoNewPrivs = true
	c, inst := launchConfined(t, l, s)
	if c.NoNewPrivs != 1 {
		t.Error("it may gain privileges")
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", inst.PID()))
	if err != nil || !strings.Contains(string(status), "NoNewPrivs:\t1") {
		t.Errorf("the kernel says otherwise (%v):\n%s", err, status)
	}
	if c.DeathSignal != int32(unix.SIGKILL) {
		t.Errorf("its death signal is %d, want SIGKILL", c.DeathSignal)
	}
	own, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil || own != 0 {
		t.Errorf("the host itself has no_new_privs %d (%v), want 0", own, err)
	}
}

func TestServiceOfAnotherUser(t *testing.T) {
	needRoot(t)
	a, err := account.Lookup("nobody", "")
	if err != nil {
		t.Skip(err)
	}
	a.Groups = append(a.Groups, 1, 54321)
	l := newLauncher(t)
	s := publicSpec(t)
	s.Env = append(s.Env, "HOME="+a.Home)
	s.Confinement.Account = a
	nice := 15
	s.Confinement.OpenFiles, s.Confinement.Nice, s.Confinement.NoNewPrivs = 99, &nice, true
	c, inst := launchConfined(t, l, s)
	if c.UID != int(a.UID) || c.GID != int(a.GID) {
		t.Errorf("it runs as %d:%d, want %d:%d", c.UID, c.GID, a.UID, a.GID)
	}
	slices.Sort(c.Groups)
	for _, want := range []int{1, 54321} {
		if !slices.Contains(c.Groups, want) {
			t.Errorf("its groups are %v, want %d among them", c.Groups, want)
		}
	}
	if slices.Contains(c.Groups, 0) {
		t.Errorf("its groups are %v: it is still in the host's", c.Groups)
	}
	if c.DeathSignal != int32(unix.SIGKILL) {
		t.Errorf("its death signal is %d, want SIGKILL", c.DeathSignal)
	}
	if c.Hard != 99 || c.Nice != 15 || c.NoNewPrivs != 1 {
		t.Errorf("it is held to %+v", c)
	}
	info, err := os.Stat(c.InstanceDir)
	if err != nil || info.Mode().Perm() != 0o700 || info.Sys().(*syscall.Stat_t).Uid != a.UID {
		t.Errorf("its directory is %v (%v), want one of mode 0700 that is its own", info, err)
	}
	if dir := l.Installation.InstanceDir(inst.ID()); dir != c.InstanceDir {
		t.Errorf("its directory is found at %s, and is %s", dir, c.InstanceDir)
	}
	if state, err := os.Stat(l.Installation.Dir); err != nil || state.Mode().Perm() != 0o700 {
		t.Errorf("the state directory has mode %v (%v), want 0700", state.Mode(), err)
	}
	// Others must still be able to identify the host.
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil || dumpable != 1 {
		t.Errorf("the host's dumpable is %d (%v), want 1", dumpable, err)
	}
	process, err := probes.Open(inst.PID())
	if err != nil {
		t.Fatal(err)
	}
	defer process.Close()
	proof := process.Identify(probes.Expect{Identity: inst.Record().Identity})
	if proof.Verdict != probes.Ours || proof.By != probes.ByMarker {
		t.Errorf("the proof is %+v, want that it is ours by its marker", proof)
	}
	if err := inst.Health(timeout(t)); err != nil {
		t.Error(err)
	}
	if _, err := inst.Stop(timeout(t), patience); err != nil {
		t.Fatal(err)
	}
	checkNothingLeft(t, l)
	if err := l.Installation.RemoveRunDir(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(l.Installation.ForeignRunDir()); err == nil {
		t.Errorf("%s is left", l.Installation.ForeignRunDir())
	}
}

func TestAUserWhoCannotReachTheExecutableIsNamed(t *testing.T) {
	needRoot(t)
	a, err := account.Lookup("nobody", "")
	if err != nil {
		t.Skip(err)
	}
	l := newLauncher(t)
	t.Cleanup(func() { _ = l.Installation.RemoveRunDir() })
	s := publicSpec(t)
	if err := os.Chmod(s.Path, 0o700); err != nil {
		t.Fatal(err)
	}
	s.Confinement.Account = a
	_, err = l.Launch(timeout(t), s)
	if err == nil || !strings.Contains(err.Error(), `user "nobody" must be able to execute it`) {
		t.Errorf("the error is %v, want one that names the user", err)
	}
	checkNothingLeft(t, l)
}

func digest(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func TestVerifiedExecutableIsWhatRuns(t *testing.T) {
	l := newLauncher(t)
	s := publicSpec(t)
	s.Confinement.SHA256 = digest(t, s.Path)
	c, inst := launchConfined(t, l, s)
	if c.Name != s.Args[0] {
		t.Errorf("it is called by the name %q, want %q", c.Name, s.Args[0])
	}
	for _, file := range c.Files {
		if strings.Contains(file, "memfd:") {
			t.Errorf("it has a descriptor of its own image: %q", c.Files)
		}
	}
	// What it runs cannot be changed, and is what was verified.
	exe := fmt.Sprintf("/proc/%d/exe", inst.PID())
	if got := digest(t, exe); got != s.Confinement.SHA256 {
		t.Errorf("it runs what has the digest %s, want %s", got, s.Confinement.SHA256)
	}
	if f, err := os.OpenFile(exe, os.O_WRONLY, 0); err == nil {
		if _, err := f.WriteString("x"); err == nil {
			t.Error("what it runs can be written")
		}
		f.Close()
	}
}

func TestMismatchedChecksumStartsNothing(t *testing.T) {
	l := newLauncher(t)
	s := publicSpec(t)
	s.Confinement.SHA256 = strings.Repeat("0", 64)
	_, err := l.Launch(timeout(t), s)
	var mismatch *launch.ChecksumError
	if !errors.As(err, &mismatch) || mismatch.Got != digest(t, s.Path) || !mismatch.Permanent() {
		t.Fatalf("the error is %v, want a permanent one of both digests", err)
	}
	for _, want := range []string{mismatch.Want, mismatch.Got, s.Path} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %s: %v", want, err)
		}
	}
	checkNothingLeft(t, l)
}

func TestScriptWithAChecksumIsRefused(t *testing.T) {
	l := newLauncher(t)
	s := publicSpec(t)
	s.Path = filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(s.Path, []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.Confinement.SHA256 = digest(t, s.Path)
	_, err := l.Launch(timeout(t), s)
	if err == nil || !strings.Contains(err.Error(), "is a script") {
		t.Errorf("the error is %v, want that it is a script", err)
	}
	checkNothingLeft(t, l)
}

// newGroups is a launcher's control groups, where this system has them.
func newGroups(t *testing.T, l *launch.Launcher) *cgroup.Tree {
	t.Helper()
	tree, err := cgroup.Open(l.Installation.ID)
	if err != nil {
		t.Skip(err)
	}
	l.Groups = tree
	t.Cleanup(func() {
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
		left, err := filepath.Glob(filepath.Join(tree.Base(), "plughost."+l.Installation.ID+".*"))
		if err != nil || len(left) > 0 {
			t.Errorf("%q (%v) are left", left, err)
		}
	})
	return tree
}

func TestStopEndsWhatGaveUpItsMarker(t *testing.T) {
	l := newLauncher(t)
	newGroups(t, l)
	s := spec(t, "confined", &lines{})
	s.Env = append(s.Env, envAbandon+"=1")
	c, inst := launchConfined(t, l, s)
	if want := "/plughost." + l.Installation.ID + "." + inst.ID(); !strings.HasSuffix(c.Cgroup, want) {
		t.Errorf("its control group is %q, want %q", c.Cgroup, want)
	}
	if inst.Record().Cgroup != c.Cgroup {
		t.Errorf("the record says %q, want %q", inst.Record().Cgroup, c.Cgroup)
	}
	daemon, err := probes.Open(c.Child)
	if err != nil {
		t.Fatal(err)
	}
	defer daemon.Close()
	result, err := inst.Stop(timeout(t), patience)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(result.Swept, c.Child) || !daemon.Exited() {
		t.Errorf("stop gives %+v, want that it ended %d", result, c.Child)
	}
	checkNothingLeft(t, l)
}

// The thread that spawns under no_new_privs lives as long as the host, as the
// other does: the death signal follows it.
func TestRestrictedChildDiesWithTheHostOnly(t *testing.T) {
	l := newLauncher(t)
	s := spec(t, "confined", &lines{})
	s.Confinement.NoNewPrivs = true
	_, inst := launchConfined(t, l, s)
	content, err := os.ReadFile("/proc/" + strconv.Itoa(inst.PID()) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	if fields := strings.Fields(string(content[strings.LastIndexByte(string(content), ')')+1:])); fields[1] != strconv.Itoa(os.Getpid()) {
		t.Errorf("its parent is %s, want the host", fields[1])
	}
	for range 20 {
		launchConfined(t, l, s)
	}
	if err := inst.Health(timeout(t)); err != nil {
		t.Errorf("it did not outlive the start of others: %v", err)
	}
}
