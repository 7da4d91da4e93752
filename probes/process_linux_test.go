package probes

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOpenThread(t *testing.T) {
	t.Parallel()
	h := start(t, "serve", "")
	dir, err := os.Open(procPath(h.pid(), "task"))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	tids, err := numbersIn(int(dir.Fd()), make([]byte, 4096), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tid := range tids {
		if tid == h.pid() {
			continue
		}
		if _, err := Open(tid); !errors.Is(err, ErrGone) {
			t.Errorf("Open of a thread says %v, want gone", err)
		}
		return
	}
	t.Skip("the helper has one thread only")
}

func TestFromPidfd(t *testing.T) {
	t.Parallel()
	h := start(t, "serve", "")
	if h.pidfd < 0 {
		t.Skip("the kernel gives no pidfd at the start")
	}
	if _, err := FromPidfd(os.Getpid(), h.pidfd); !errors.Is(err, ErrSelf) {
		t.Errorf("own pid: %v, want self", err)
	}
	if _, err := FromPidfd(os.Getppid(), h.pidfd); !errors.Is(err, ErrInvalidPID) {
		t.Errorf("another pid: %v, want invalid", err)
	}
	if _, err := FromPidfd(h.pid(), 0); !errors.Is(err, syscall.EBADF) {
		t.Errorf("no pidfd: %v, want a bad descriptor", err)
	}
	p := h.held()
	// The launcher's own Wait goes on to work beside ours.
	done := make(chan error, 1)
	go func() { done <- p.Wait(context.Background()) }()
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	h.await()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if s, err := p.State(); err != nil || s != Gone {
		t.Errorf("State = %v, %v, want gone", s, err)
	}
}

// What older kernels are left with: kill(2) as long as the leader is there.
func TestKillGroup(t *testing.T) {
	t.Parallel()
	h := start(t, "leader", "serve", withGroup())
	leader, child := h.held(), open(t, h.numbers[0])
	if err := leader.handle.killGroup(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*Process{leader, child} {
		if err := p.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := leader.handle.killGroup(0); err != nil {
		t.Errorf("through a zombie: %v", err)
	}
	h.await()
	if err := leader.handle.killGroup(0); !errors.Is(err, ErrGone) {
		t.Errorf("through a reaped leader: %v, want gone", err)
	}
}

func TestCheckProc(t *testing.T) {
	t.Parallel()
	needRoot(t)
	// A process in a new pid namespace that still sees the old /proc.
	cmd := self("foreign-proc", "", nil)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	out, err := cmd.Output()
	if errors.Is(err, unix.EPERM) {
		t.Skip("pid namespaces are not permitted")
	}
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("%v: %s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	if got := string(out); got != "true true\n" {
		t.Errorf("with a foreign /proc: %q", got)
	}
}

// Waiting takes no descriptor and no thread that is not given back.
func TestWaitLeavesNothing(t *testing.T) {
	p := open(t, start(t, "serve", "").pid())
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	threads := func() int {
		entries, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before, threadsBefore := count(), threads()
	for range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		var waits sync.WaitGroup
		for range 100 {
			waits.Go(func() { _ = p.Wait(ctx) })
		}
		cancel()
		waits.Wait()
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
	// Go never ends a thread that it made, so these would still be there.
	if after := threads(); after > threadsBefore+50 {
		t.Errorf("%d threads, %d before", after, threadsBefore)
	}
}

func TestCoverage(t *testing.T) {
	t.Parallel()
	c := Coverage()
	if c.OS != "linux" || c.Release == "" || !c.Supported || !c.Hold || !c.Environ {
		t.Errorf("Coverage = %+v", c)
	}
	var missing int
	for _, has := range []bool{c.Hold, c.UniqueBirth, c.HeldGroup, c.Environ, c.AllUsers, c.Sockets} {
		if !has {
			missing++
		}
	}
	if (missing == 0) != (len(c.Notes) == 0) {
		t.Errorf("%d things are missing, and the notes are %q", missing, c.Notes)
	}
}
