package probes

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/windows"

	"github.com/plughost/plughost/shared/marker"
)

// A stop ends marked descendants, unmarked ones, and marked orphans: by force
// unless the test has a console.
func TestStop(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"serve", "leader", "scrubbing", "orphan"} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			id := testIdentity("stop-" + part)
			h := start(t, id, part, "serve")
			p := open(t, h.pid())
			all := []*Process{p}
			if h.numbers[0] != h.pid() {
				all = append(all, open(t, h.numbers[0]))
			}
			birth, err := p.Birth()
			if err != nil {
				t.Fatal(err)
			}
			bystander := start(t, testIdentity("bystander-"+part), "serve", "")
			result, err := Stop(t.Context(), Record{PID: h.pid(), Birth: birth, Identity: id, Group: true}, 10*time.Second)
			if err != nil || result.Outcome != OutcomeStopped || result.How < Exited || len(result.Swept) != len(all)-1 {
				t.Errorf("Stop = %+v, %v", result, err)
			}
			for _, p := range all {
				if !p.Exited() {
					t.Errorf("process %d lives on", p.PID())
				}
			}
			if open(t, bystander.pid()).Exited() {
				t.Error("a bystander was hit")
			}
		})
	}
}

// Nobody can be asked here, so the grace is not waited for.
func TestStopDoesNotWaitInVain(t *testing.T) {
	t.Parallel()
	id := testIdentity("vain")
	h := start(t, id, "serve", "")
	if slices.Contains(consolePIDs(), uint32(h.pid())) {
		t.Skip("the test has a console")
	}
	began := time.Now()
	result, err := Stop(t.Context(), Record{PID: h.pid(), Identity: id, Group: true}, time.Minute)
	if err != nil || result.Outcome != OutcomeStopped || result.How != Killed || time.Since(began) > 30*time.Second {
		t.Errorf("Stop = %+v, %v, after %v", result, err, time.Since(began))
	}
}

func TestStopRefuses(t *testing.T) {
	t.Parallel()
	id := testIdentity("refuses")
	h := start(t, id, "serve", "")
	p := open(t, h.pid())
	birth, err := p.Birth()
	if err != nil {
		t.Fatal(err)
	}
	other := birth
	other.Start--
	foreign := testIdentity("none of it")
	for _, test := range []struct {
		record Record
		want   Outcome
	}{
		{Record{PID: h.pid(), Identity: foreign}, OutcomeNotOurs},
		{Record{PID: h.pid(), Birth: other, Identity: foreign}, OutcomeNotOurs},
		{Record{PID: h.pid()}, OutcomeUnknown},
		{Record{PID: h.pid() + 1, Identity: foreign}, OutcomeNotRunning},
	} {
		result, err := Stop(t.Context(), test.record, 0)
		if err != nil || result.Outcome != test.want {
			t.Errorf("%+v: %+v, %v", test.record, result, err)
		}
	}
	if p.Exited() {
		t.Error("it was ended")
	}
}

// The recorded process is gone; what it left is found by its marker.
func TestStopSweeps(t *testing.T) {
	t.Parallel()
	id := testIdentity("sweeps")
	h := start(t, id, "leader", "serve")
	child := open(t, h.numbers[0])
	h.kill()
	result, err := Stop(t.Context(), Record{PID: h.pid(), Identity: id, Group: true}, 0)
	if err != nil || !slices.Equal(result.Swept, []int{child.PID()}) {
		t.Errorf("Stop = %+v, %v", result, err)
	}
	gone(t, child)
	if result, err := Sweep(t.Context(), Filter{Instance: id.Instance}, 0); err != nil || result.Outcome != OutcomeNotRunning {
		t.Errorf("Sweep = %+v, %v", result, err)
	}
}

// The unmarked child of a process that exited is proven by the held process.
func TestStopHeldAfterTheExit(t *testing.T) {
	t.Parallel()
	id := testIdentity("held")
	h := start(t, id, "scrubbing", "serve")
	p, child := open(t, h.pid()), open(t, h.numbers[0])
	h.kill()
	gone(t, p)
	result, err := StopHeld(t.Context(), p, Record{PID: h.pid(), Identity: id, Group: true}, 0)
	if err != nil || result.Outcome != OutcomeStopped || !slices.Equal(result.Swept, []int{child.PID()}) {
		t.Errorf("StopHeld = %+v, %v", result, err)
	}
	gone(t, child)
}

func TestStopEndsABreeder(t *testing.T) {
	t.Parallel()
	id := testIdentity("breeder")
	h := start(t, id, "breeder", "")
	result, err := Stop(t.Context(), Record{PID: h.pid(), Identity: id, Group: true}, 0)
	if err != nil || result.Outcome != OutcomeStopped {
		t.Errorf("Stop = %+v, %v", result, err)
	}
	found, err := List(t.Context(), Filter{Instance: id.Instance})
	if err != nil || len(found) != 0 {
		t.Errorf("left: %+v, %v", found, err)
	}
}

func TestSignalGroup(t *testing.T) {
	t.Parallel()
	h := start(t, marker.Identity{}, "scrubbing", "serve")
	p, child := open(t, h.pid()), open(t, h.numbers[0])
	if err := p.SignalGroup(0); err != nil {
		t.Error(err)
	}
	if err := p.SignalGroup(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	gone(t, p, child)
	if err := p.SignalGroup(0); !errors.Is(err, ErrGone) {
		t.Errorf("after the end: %v", err)
	}
}

func TestOwnFamilyIsRefused(t *testing.T) {
	t.Parallel()
	h := start(t, marker.Identity{}, "leader", "child")
	_ = h.in.Close()
	h.reaped = true
	_ = h.cmd.Wait()
	if got := h.stderr.String(); !strings.Contains(got, ErrSelf.Error()) {
		t.Errorf("the child was told %q", got)
	}
}

// On one console, the polite end is a Ctrl-Break.
func TestStopOnAConsole(t *testing.T) {
	t.Parallel()
	for part, want := range map[string][]int{
		"polite":   {int(Exited), 7},
		"stubborn": {int(Killed), exitKilled},
	} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			cmd := self("stopper", part, stamped(marker.Identity{}))
			cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NO_WINDOW}
			h := startCmd(t, cmd)
			if part == "polite" && h.numbers[0] == int(Killed) {
				unlessWine(t, "makes no console events")
			}
			if !slices.Equal(h.numbers, want) {
				t.Errorf("how and exit code: %d, want %d", h.numbers, want)
			}
		})
	}
}

func TestJobObject(t *testing.T) {
	t.Parallel()
	job, err := NewJobObject(false)
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	h := start(t, marker.Identity{}, "exit", "0")
	p := open(t, h.pid())
	if err := job.Assign(p); err != nil {
		t.Fatal(err)
	}
	if pids, err := job.PIDs(); err != nil || !slices.Equal(pids, []int{h.pid()}) {
		t.Errorf("PIDs = %d, %v", pids, err)
	}
	if err := p.SignalGroup(0); err != nil {
		t.Error(err)
	}
	if err := job.Terminate(); err != nil {
		t.Error(err)
	}
	gone(t, p)
	if pids, err := job.PIDs(); err != nil || len(pids) != 0 {
		t.Errorf("PIDs = %d, %v", pids, err)
	}
	if err := job.Assign(p); !errors.Is(err, ErrGone) {
		t.Errorf("Assign says %v of a process that is gone", err)
	}
}

func TestJobObjectEndsWithItsHandle(t *testing.T) {
	t.Parallel()
	job, err := NewJobObject(false)
	if err != nil {
		t.Fatal(err)
	}
	h := start(t, marker.Identity{}, "serve", "")
	p := open(t, h.pid())
	if err := job.Assign(p); err != nil {
		t.Fatal(err)
	}
	if err := job.Close(); err != nil {
		t.Error(err)
	}
	gone(t, p)
	if err := job.Terminate(); err == nil {
		t.Error("a closed job can be used")
	}
	if err := job.Close(); err != nil {
		t.Error(err)
	}
	if err := p.SignalGroup(0); !errors.Is(err, ErrGone) {
		t.Errorf("SignalGroup says %v", err)
	}
}
