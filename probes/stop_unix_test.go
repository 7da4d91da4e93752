//go:build linux || darwin || freebsd

package probes

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/plughost/plughost/shared/marker"
)

const (
	// long is a grace that no test waits for.
	long = 5 * time.Minute
	// short is a grace that is over soon.
	short = 50 * time.Millisecond
)

// record makes the record of a helper.
func record(t *testing.T, h *helper, id marker.Identity, group bool) Record {
	t.Helper()
	birth, err := open(t, h.pid()).Birth()
	if err != nil {
		t.Fatal(err)
	}
	return Record{PID: h.pid(), Birth: birth, Identity: id, Group: group}
}

func expect(t *testing.T, got Result, err error, outcome Outcome, how How, swept ...int) {
	t.Helper()
	if err != nil {
		t.Errorf("error: %v", err)
	}
	slices.Sort(swept)
	if got.Outcome != outcome || got.How != how || !slices.Equal(got.Swept, swept) {
		t.Errorf("%v, %v, swept %v (%s); want %v, %v, swept %v",
			got.Outcome, got.How, got.Swept, got.Proof.Reason, outcome, how, swept)
	}
}

// expectEmpty fails the test if anything of an instance is left.
func expectEmpty(t *testing.T, id marker.Identity) {
	t.Helper()
	found, err := List(t.Context(), Filter{Installation: id.Installation})
	if err != nil || len(found) > 0 {
		t.Errorf("left: %+v, %v", found, err)
	}
}

func TestStopPolitely(t *testing.T) {
	t.Parallel()
	id, _ := ids(t)
	h := start(t, "leader", "serve", withGroup(), withMarker(id))
	got, err := Stop(t.Context(), record(t, h, id, true), long)
	expect(t, got, err, OutcomeStopped, Exited, h.numbers[0])
	if got.Proof.Verdict != Ours || got.Proof.By != ByBirth {
		t.Errorf("proof: %+v", got.Proof)
	}
	expectEmpty(t, id)
}

func TestStopByMarkerAlone(t *testing.T) {
	t.Parallel()
	id, _ := ids(t)
	h := start(t, "serve", "", withMarker(id))
	got, err := Stop(t.Context(), Record{PID: h.pid(), Identity: id}, long)
	expect(t, got, err, OutcomeStopped, Exited)
	if got.Proof.By != ByMarker {
		t.Errorf("proof: %+v", got.Proof)
	}
}

func TestStopForced(t *testing.T) {
	t.Parallel()
	id, _ := ids(t)
	for _, grace := range []time.Duration{short, 0, -1} {
		h := start(t, "leader", "stubborn", withGroup(), withMarker(id))
		got, err := Stop(t.Context(), record(t, h, id, true), grace)
		expect(t, got, err, OutcomeStopped, Killed, h.numbers[0])
		expectEmpty(t, id)
	}
}

// A process that is stopped can't take the polite signal unless it is let run.
func TestStopOfStopped(t *testing.T) {
	t.Parallel()
	id, _ := ids(t)
	h := start(t, "serve", "", withGroup(), withMarker(id))
	p := open(t, h.pid())
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	got, err := Stop(t.Context(), record(t, h, id, true), long)
	expect(t, got, err, OutcomeStopped, Exited)
}

func TestStopCanceled(t *testing.T) {
	t.Parallel()
	id, _ := ids(t)
	h := start(t, "stubborn", "", withGroup(), withMarker(id))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got, err := Stop(ctx, record(t, h, id, true), long)
	expect(t, got, err, OutcomeStopped, Killed)

	h = start(t, "stubborn", "", withGroup(), withMarker(id))
	r := record(t, h, id, true)
	ctx, cancel = context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		got, err = Stop(ctx, r, long)
	}()
	cancel()
	<-done
	expect(t, got, err, OutcomeStopped, Killed)
}

func TestStopExited(t *testing.T) {
	t.Parallel()
	id, _ := ids(t)
	h := start(t, "serve", "", withGroup(), withMarker(id))
	r := record(t, h, id, true)
	p := open(t, h.pid())
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := Stop(t.Context(), r, long)
	expect(t, got, err, OutcomeStopped, AlreadyExited)
	// Without a birth record a zombie proves nothing.
	got, err = Stop(t.Context(), Record{PID: r.PID, Identity: id, Group: true}, long)
	expect(t, got, err, OutcomeNotRunning, AlreadyExited)
	h.await()
	got, err = Stop(t.Context(), r, long)
	if got.Outcome != OutcomeNotOurs { // if the pid was given anew
		expect(t, got, err, OutcomeNotRunning, AlreadyExited)
	}
}

// A zombie that its parent leaves lying counts as exited.
func TestStopZombieOfAnother(t *testing.T) {
	t.Parallel()
	id, _ := ids(t)
	h := start(t, "zombie", "", withMarker(id))
	zombie := open(t, h.numbers[0])
	birth, err := zombie.Birth()
	if err != nil {
		t.Fatal(err)
	}
	if err := zombie.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, err := zombie.State(); err != nil || s != Zombie {
		t.Fatalf("State = %v, %v, want zombie", s, err)
	}
	other := marker.Identity{Installation: id.Installation, Instance: "another"}
	got, err := Stop(t.Context(), Record{PID: zombie.PID(), Birth: birth, Identity: other}, long)
	expect(t, got, err, OutcomeStopped, AlreadyExited)
	// Nor does it keep a stop of its instance waiting.
	got, err = Stop(t.Context(), record(t, h, id, false), long)
	expect(t, got, err, OutcomeStopped, Exited)
}

func TestStopLeavesStrangers(t *testing.T) {
	t.Parallel()
	id, _ := ids(t)
	stranger := start(t, "serve", "", withGroup())
	marked := start(t, "serve", "", withGroup(), withMarker(id))
	other := id
	other.Installation, other.Instance = "another", "another"
	wrongBirth := record(t, stranger, other, true)
	wrongBirth.Birth.Start--

	for _, tt := range []struct {
		name string
		h    *helper
		r    Record
		want Outcome
	}{
		{"unmarked", stranger, Record{PID: stranger.pid(), Identity: other, Group: true}, OutcomeNotOurs},
		{"another birth", stranger, wrongBirth, OutcomeNotOurs},
		{"another marker", marked, Record{PID: marked.pid(), Identity: other, Group: true}, OutcomeNotOurs},
		{"nothing known", marked, Record{PID: marked.pid(), Group: true}, OutcomeUnknown},
	} {
		got, err := Stop(t.Context(), tt.r, 0)
		if err != nil || got.Outcome != tt.want || got.Proof.Reason == "" || len(got.Swept) > 0 {
			t.Errorf("%s: %+v, %v, want %v", tt.name, got, err, tt.want)
		}
		if open(t, tt.h.pid()).Exited() {
			t.Errorf("%s: it was ended", tt.name)
		}
	}
}

func TestStopRefuses(t *testing.T) {
	t.Parallel()
	id, _ := ids(t)
	for pid, want := range map[int]error{0: ErrInvalidPID, -1: ErrInvalidPID, maxPID + 1: ErrInvalidPID, os.Getpid(): ErrSelf} {
		if _, err := Stop(t.Context(), Record{PID: pid, Identity: id, Group: true}, 0); !errors.Is(err, want) {
			t.Errorf("Stop of pid %d says %v, want %v", pid, err, want)
		}
	}
	if _, err := Sweep(t.Context(), Filter{}, 0); err == nil {
		t.Error("Sweep takes an empty filter")
	}
	if _, err := Sweep(t.Context(), Filter{Hosts: true}, 0); err == nil {
		t.Error("Sweep takes a filter for all hosts")
	}
	a, b := start(t, "serve", ""), start(t, "serve", "")
	p := a.held()
	if _, err := StopHeld(t.Context(), p, Record{PID: b.pid()}, 0); err == nil {
		t.Error("StopHeld takes the record of another process")
	}
	r := record(t, b, id, false)
	r.PID = 0
	if _, err := StopHeld(t.Context(), p, r, 0); err == nil {
		t.Error("StopHeld takes the birth record of another process")
	}
	if p.Exited() {
		t.Error("a refused process was ended")
	}
}

// The leader is gone and reaped; a member of its group that ignores the polite
// signal carries no marker. Only the held leader still proves the group.
func TestStopHeldGroupOutlivesLeader(t *testing.T) {
	t.Parallel()
	for _, reaped := range []bool{false, true} {
		if reaped && !Coverage().HeldGroup {
			t.Skip("needs group signals by pidfd, of Linux 6.9")
		}
		id, _ := ids(t)
		h := start(t, "scrubbing", "stubborn", withGroup(), withMarker(id))
		r := record(t, h, id, true)
		p := h.held()
		child := open(t, h.numbers[0])
		if err := p.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if reaped {
			h.await()
		}
		got, err := StopHeld(t.Context(), p, r, short)
		expect(t, got, err, OutcomeStopped, Killed, child.PID())
		if !child.Exited() {
			t.Error("the member lives")
		}
		got, err = StopHeld(t.Context(), p, r, short)
		expect(t, got, err, OutcomeStopped, AlreadyExited)
	}
}

// A stop from within the group that is to be ended ends the leader alone.
func TestStopOwnGroup(t *testing.T) {
	t.Parallel()
	id, _ := ids(t)
	h := start(t, "leader", "stop-parent", withGroup(), withMarker(id))
	child := open(t, h.numbers[0])
	if err := child.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if err := open(t, h.pid()).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if child.Exited() {
		t.Error("it ended itself")
	}
}

func partStopParent(string) {
	cue := make(chan os.Signal, 1)
	signal.Notify(cue, syscall.SIGUSR1)
	p, err := Open(os.Getppid())
	if err != nil {
		fatal(err)
	}
	ready(os.Getpid())
	<-cue
	if err := p.SignalGroup(syscall.SIGKILL); !errors.Is(err, ErrSelf) {
		fatal(err)
	}
	b, err := p.Birth()
	if err != nil {
		fatal(err)
	}
	if _, err := Stop(context.Background(), Record{PID: p.PID(), Birth: b, Group: true}, long); err != nil {
		fatal(err)
	}
	untilEOF()
}

// The leader ends politely; the member does not, and carries no marker.
func TestStopUnmarkedMember(t *testing.T) {
	t.Parallel()
	id, _ := ids(t)
	h := start(t, "scrubbing", "stubborn", withGroup(), withMarker(id))
	child := open(t, h.numbers[0])
	got, err := StopHeld(t.Context(), h.held(), Record{Identity: id, Group: true}, short)
	expect(t, got, err, OutcomeStopped, Killed, child.PID())
	if !child.Exited() {
		t.Error("the member lives")
	}
}

// A record that does not say so has no group, even if its process leads one.
func TestStopWithoutGroup(t *testing.T) {
	t.Parallel()
	id, _ := ids(t)
	h := start(t, "scrubbing", "serve", withGroup(), withMarker(id))
	child := open(t, h.numbers[0])
	got, err := Stop(t.Context(), record(t, h, id, false), long)
	expect(t, got, err, OutcomeStopped, Exited)
	if child.Exited() {
		t.Error("a process that was not the record's was ended")
	}
}

// A recorded process that shares the group of its starter, here the test's,
// is ended alone.
func TestStopInForeignGroup(t *testing.T) {
	t.Parallel()
	id, _ := ids(t)
	h := start(t, "serve", "", withMarker(id))
	got, err := Stop(t.Context(), record(t, h, id, true), long)
	expect(t, got, err, OutcomeStopped, Exited)
}

func TestStopDaemon(t *testing.T) {
	t.Parallel()
	id, _ := ids(t)
	for _, tt := range []struct {
		part string
		how  How
	}{{"serve", Exited}, {"stubborn", Killed}} {
		grace := long
		if tt.how == Killed {
			grace = short
		}
		h := start(t, "daemon", tt.part, withGroup(), withMarker(id))
		daemon := open(t, h.numbers[0])
		if pgid, err := daemon.Group(); err != nil || pgid == h.pid() {
			t.Fatalf("the daemon's group is %d, %v", pgid, err)
		}
		got, err := Stop(t.Context(), record(t, h, id, true), grace)
		expect(t, got, err, OutcomeStopped, tt.how, daemon.PID())
		expectEmpty(t, id)
	}
}

func TestStopSweepsWhenGone(t *testing.T) {
	t.Parallel()
	id, _ := ids(t)
	h := start(t, "daemon", "serve", withGroup(), withMarker(id))
	r := record(t, h, id, true)
	daemon := h.numbers[0]
	// Not through kill, that closes the pipe that the daemon lives by.
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	h.await()
	got, err := Stop(t.Context(), r, long)
	if got.Outcome == OutcomeNotOurs { // the pid was given anew
		got.Outcome = OutcomeNotRunning
	}
	expect(t, got, err, OutcomeNotRunning, Exited, daemon)
	expectEmpty(t, id)
}

// Processes that come and go all the time leave nothing behind either.
func TestStopBreeder(t *testing.T) {
	t.Parallel()
	parts := []string{"breeder"}
	if runtime.GOOS == "linux" {
		parts = append(parts, "hopper") // elsewhere the search may be too slow for it
	}
	for _, part := range parts {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			id, _ := ids(t)
			h := start(t, part, "", withGroup(), withMarker(id))
			got, err := Stop(t.Context(), record(t, h, id, true), short)
			if err != nil || got.Outcome != OutcomeStopped {
				t.Errorf("%+v, %v", got, err)
			}
			expectEmpty(t, id)
		})
	}
}

func TestStopTwiceAtOnce(t *testing.T) {
	t.Parallel()
	id, _ := ids(t)
	h := start(t, "leader", "stubborn", withGroup(), withMarker(id))
	r := record(t, h, id, true)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := Stop(t.Context(), r, short); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	expectEmpty(t, id)
}

func TestSweep(t *testing.T) {
	t.Parallel()
	id, hostID := ids(t)
	second := id
	second.Instance += "-b"
	other := id
	other.Installation += "-other"
	other.Instance += "-other"
	a := start(t, "serve", "", withMarker(id))
	b := start(t, "daemon", "serve", withMarker(second))
	host := start(t, "serve", "", withMarker(hostID))
	foreign := start(t, "serve", "", withMarker(other))

	got, err := Sweep(t.Context(), Filter{Instance: id.Instance, Installation: id.Installation}, long)
	expect(t, got, err, OutcomeStopped, Exited, a.pid())
	got, err = Sweep(t.Context(), Filter{Installation: id.Installation}, long)
	expect(t, got, err, OutcomeStopped, Exited, b.pid(), b.numbers[0])
	got, err = Sweep(t.Context(), Filter{Installation: id.Installation}, long)
	expect(t, got, err, OutcomeNotRunning, AlreadyExited)
	for _, h := range []*helper{host, foreign} {
		if open(t, h.pid()).Exited() {
			t.Error("a process that was not asked for was ended")
		}
	}
}

// A user who may not signal the process is told so, and need not wait.
func TestStopRefusedBySystem(t *testing.T) {
	t.Parallel()
	needRoot(t)
	id, _ := ids(t)
	h := start(t, "serve", "", withGroup(), withMarker(id))
	r := record(t, h, id, true)
	cmd := self("stop", strings.Join([]string{
		strconv.Itoa(r.PID), r.Birth.BootID, strconv.FormatUint(r.Birth.Start, 10),
	}, " "), marker.Scrub(os.Environ()))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54321, Gid: 54321}}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("%v: %s", err, exit.Stderr)
	}
	if got, want := string(out), "true ["+strconv.Itoa(r.PID)+"]\n"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	if open(t, h.pid()).Exited() {
		t.Error("it was ended")
	}
}

func partStop(arg string) {
	fields := strings.Fields(arg)
	pid, _ := strconv.Atoi(fields[0])
	start, _ := strconv.ParseUint(fields[2], 10, 64)
	_, err := Stop(context.Background(), Record{PID: pid, Birth: Birth{BootID: fields[1], PID: pid, Start: start}, Group: true}, long)
	var survivors *SurvivorsError
	if !errors.As(err, &survivors) {
		fatal(err)
	}
	ready := errors.Is(err, ErrPermission)
	_, _ = os.Stdout.WriteString(strconv.FormatBool(ready) + " [" + strconv.Itoa(survivors.PIDs[0]) + "]\n")
}

func TestSurvivorsError(t *testing.T) {
	t.Parallel()
	err := &SurvivorsError{PIDs: []int{3, 5}, Err: ErrPermission}
	if s := err.Error(); !strings.Contains(s, "3, 5") || !strings.Contains(s, ErrPermission.Error()) {
		t.Errorf("it says %q", s)
	}
	if !errors.Is(err, ErrPermission) {
		t.Error("it hides the cause")
	}
}
