//go:build linux || darwin || freebsd

package probes

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	tests := map[int]error{
		0:           ErrInvalidPID,
		-1:          ErrInvalidPID,
		-4711:       ErrInvalidPID,
		maxPID + 1:  ErrInvalidPID,
		1<<31 - 1:   ErrInvalidPID,
		os.Getpid(): ErrSelf,
	}
	if runtime.GOOS == "linux" {
		tests[maxPID] = ErrGone // never given: the limit itself is exclusive
	}
	for pid, want := range tests {
		p, err := Open(pid)
		if !errors.Is(err, want) {
			t.Errorf("Open(%d) says %v, want %v", pid, err, want)
		}
		if err == nil {
			_ = p.Close()
		}
	}
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
		info.UID != os.Geteuid() || !slices.Equal(info.Args, []string{selfExe}) || info.Command == "" {
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
	if err != nil || len(a) != 36 && !strings.HasPrefix(a, "boottime-") {
		t.Errorf("BootID = %q, %v", a, err)
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
