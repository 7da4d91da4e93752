package probes

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for pid, want := range map[int]error{
		0:           ErrInvalidPID,
		-1:          ErrInvalidPID,
		-4711:       ErrInvalidPID,
		maxPID + 1:  ErrInvalidPID,
		1<<31 - 1:   ErrInvalidPID,
		os.Getpid(): ErrSelf,
		maxPID:      ErrGone, // never given: the limit itself is exclusive
	} {
		p, err := Open(pid)
		if !errors.Is(err, want) {
			t.Errorf("Open(%d) says %v, want %v", pid, err, want)
		}
		if err == nil {
			_ = p.Close()
		}
	}
}

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

func TestLife(t *testing.T) {
	t.Parallel()
	h := start(t, "serve", "", withGroup())
	p := open(t, h.pid())
	before, err := p.Birth()
	if err != nil || before.PID != h.pid() || before.Start == 0 || before.BootID == "" {
		t.Fatalf("Birth = %+v, %v", before, err)
	}
	if caps := Coverage(); caps.UniqueBirth != (before.PidfdInode != 0) {
		t.Errorf("inode %d, but unique birth records are %t", before.PidfdInode, caps.UniqueBirth)
	}
	if s, err := p.State(); err != nil || s != Alive {
		t.Errorf("State = %v, %v, want alive", s, err)
	}
	if p.Exited() {
		t.Error("it has exited")
	}
	if ppid, err := p.Parent(); err != nil || ppid != os.Getpid() {
		t.Errorf("Parent = %d, %v, want %d", ppid, err, os.Getpid())
	}
	if pgid, err := p.Group(); err != nil || pgid != h.pid() {
		t.Errorf("Group = %d, %v, want %d", pgid, err, h.pid())
	}
	info, err := p.Info()
	if err != nil || info.PID != h.pid() || info.PPID != os.Getpid() || info.State != Alive ||
		info.UID != os.Geteuid() || !slices.Equal(info.Args, []string{"/proc/self/exe"}) || info.Command == "" {
		t.Errorf("Info = %+v, %v", info, err)
	}

	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Nobody has reaped it.
	if s, err := p.State(); err != nil || s != Zombie {
		t.Errorf("State = %v, %v, want zombie", s, err)
	}
	if after, err := p.Birth(); err != nil || !after.Same(before) {
		t.Errorf("the zombie's birth record is %+v, %v, want %+v", after, err, before)
	}
	if _, err := p.Marker(); !errors.Is(err, ErrGone) {
		t.Errorf("Marker of the zombie says %v, want gone", err)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("Signal to the zombie: %v", err)
	}
	h.await()
	if s, err := p.State(); err != nil || s != Gone {
		t.Errorf("State = %v, %v, want gone", s, err)
	}
	if _, err := p.Birth(); !errors.Is(err, ErrGone) {
		t.Errorf("Birth says %v, want gone", err)
	}
	if _, err := p.Parent(); !errors.Is(err, ErrGone) {
		t.Errorf("Parent says %v, want gone", err)
	}
	if _, err := p.Group(); !errors.Is(err, ErrGone) {
		t.Errorf("Group says %v, want gone", err)
	}
	if _, err := p.Info(); !errors.Is(err, ErrGone) {
		t.Errorf("Info says %v, want gone", err)
	}
	if err := p.Signal(0); !errors.Is(err, ErrGone) {
		t.Errorf("Signal says %v, want gone", err)
	}
	if err := p.SignalGroup(syscall.SIGTERM); !errors.Is(err, ErrGone) {
		t.Errorf("SignalGroup says %v, want gone", err)
	}
	if err := p.Wait(t.Context()); err != nil {
		t.Errorf("Wait says %v", err)
	}
	if _, err := Open(h.pid()); err == nil {
		// Somebody else's by now; it is not the same, in any case.
		t.Log("the pid was given anew")
	} else if !errors.Is(err, ErrGone) {
		t.Errorf("Open says %v, want gone", err)
	}
}

// An exec leaves the birth record as it is.
func TestBirthSurvivesExec(t *testing.T) {
	t.Parallel()
	p := open(t, start(t, "exec-loop", "").pid())
	first, err := p.Birth()
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if b, err := p.Birth(); err != nil || b != first {
			t.Fatalf("Birth = %+v, %v, want %+v", b, err, first)
		}
	}
}

func TestBirthSame(t *testing.T) {
	t.Parallel()
	b := Birth{BootID: "a", PID: 5, Start: 7, PidfdInode: 9}
	tests := []struct {
		name string
		a, b Birth
		want bool
	}{
		{"equal", b, b, true},
		{"inode known to one", b, Birth{BootID: "a", PID: 5, Start: 7}, true},
		{"inode", b, Birth{BootID: "a", PID: 5, Start: 7, PidfdInode: 8}, false},
		{"boot", b, Birth{BootID: "b", PID: 5, Start: 7, PidfdInode: 9}, false},
		{"pid", b, Birth{BootID: "a", PID: 6, Start: 7, PidfdInode: 9}, false},
		{"start", b, Birth{BootID: "a", PID: 5, Start: 8, PidfdInode: 9}, false},
		{"nothing known", Birth{}, Birth{}, false},
		{"no boot", Birth{PID: 5, Start: 7}, Birth{PID: 5, Start: 7}, false},
		{"no start", Birth{BootID: "a", PID: 5}, Birth{BootID: "a", PID: 5}, false},
	}
	for _, tt := range tests {
		if tt.a.Same(tt.b) != tt.want || tt.b.Same(tt.a) != tt.want {
			t.Errorf("%s: want %t", tt.name, tt.want)
		}
		if !tt.want && tt.a.difference(tt.b) == "" {
			t.Errorf("%s: no difference named", tt.name)
		}
	}
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

func TestWaitNonChild(t *testing.T) {
	t.Parallel()
	h := start(t, "leader", "serve")
	child := open(t, h.numbers[0])
	if ppid, err := child.Parent(); err != nil || ppid != h.pid() {
		t.Fatalf("Parent = %d, %v", ppid, err)
	}
	var waits sync.WaitGroup
	for range 20 {
		waits.Go(func() {
			if err := child.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	if err := child.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waits.Wait()
	if !child.Exited() {
		t.Error("it has not exited")
	}
}

func TestWaitEnds(t *testing.T) {
	t.Parallel()
	p, err := Open(start(t, "serve", "").pid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	mine := errors.New("enough")
	results := make(chan error, 2)
	go func() { results <- p.Wait(ctx) }()
	cancel(mine)
	if err := <-results; !errors.Is(err, mine) {
		t.Errorf("canceled: %v, want %v", err, mine)
	}
	if err := p.Wait(ctx); !errors.Is(err, mine) {
		t.Errorf("canceled before: %v, want %v", err, mine)
	}
	short, cancelShort := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancelShort()
	if err := p.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("timed out: %v", err)
	}
	started := make(chan struct{})
	go func() {
		close(started)
		results <- p.Wait(context.Background())
	}()
	<-started
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := <-results; !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed: %v, want closed", err)
	}
	if err := p.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if err := p.Signal(0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Signal after Close: %v, want closed", err)
	}
	if proof := p.Identify(Expect{}); proof.Verdict != Unknown || !errors.Is(proof.Err, os.ErrClosed) {
		t.Errorf("Identify after Close: %+v", proof)
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

func TestSignalGroup(t *testing.T) {
	t.Parallel()
	h := start(t, "leader", "stubborn", withGroup())
	leader := h.held()
	child := open(t, h.numbers[0])
	if err := child.SignalGroup(0); !errors.Is(err, ErrNotLeader) {
		t.Errorf("through a member: %v, want not the leader", err)
	}
	if err := leader.SignalGroup(0); err != nil {
		t.Fatal(err)
	}
	if err := leader.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.await()
	if s, _ := leader.State(); s != Gone {
		t.Fatalf("State = %v, want gone", s)
	}
	err := leader.SignalGroup(syscall.SIGKILL)
	if !Coverage().HeldGroup {
		if !errors.Is(err, ErrGone) {
			t.Errorf("after the leader was reaped: %v, want gone", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(t.Context()); err != nil {
		t.Error(err)
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

func TestSelf(t *testing.T) {
	t.Parallel()
	a, err := Self()
	if err != nil || a.PID != os.Getpid() {
		t.Fatalf("Self = %+v, %v", a, err)
	}
	if b, err := Self(); err != nil || !a.Same(b) {
		t.Errorf("Self = %+v, %v, want %+v", b, err, a)
	}
	block, err := ownEnviron()
	if err != nil || !bytes.Contains(block, []byte("PATH=")) {
		t.Errorf("own environment: %d bytes, %v", len(block), err)
	}
}

func TestSelfMarker(t *testing.T) {
	t.Parallel()
	_, hostID := ids(t)
	cmd := self("self", "", nil)
	cmd.Env = append(cmd.Env, hostID.Environ()...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	// The helper has unset the variable, which changes nothing.
	if got := strings.TrimSpace(string(out)); got != hostID.String() {
		t.Errorf("SelfMarker = %q, want %q", got, hostID)
	}
}

func TestBootID(t *testing.T) {
	t.Parallel()
	a, err := BootID()
	if err != nil || len(a) != 36 {
		t.Errorf("BootID = %q, %v", a, err)
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

func TestClosedRace(t *testing.T) {
	t.Parallel()
	h := start(t, "serve", "")
	for range 50 {
		p, err := Open(h.pid())
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for _, f := range []func(){
			func() { _, _ = p.Birth() },
			func() { _, _ = p.Marker() },
			func() { _ = p.Wait(context.Background()) },
			func() { _ = p.Signal(0) },
			func() { p.Exited() },
			func() { _ = p.Close() },
		} {
			all.Go(f)
		}
		all.Wait()
	}
}
