package probes

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plughost/plughost/shared/marker"
)

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	h := start(t, marker.Identity{}, "serve", "")
	for pid, want := range map[int]error{
		0: ErrInvalidPID, -1: ErrInvalidPID, os.Getpid(): ErrSelf,
		// Windows itself would open h's process by these.
		h.pid() + 1: ErrGone, h.pid() + 3: ErrGone,
		0x7ffffffc: ErrGone,
	} {
		if p, err := Open(pid); !errors.Is(err, want) {
			t.Errorf("Open(%d) = %v, %v, want %v", pid, p, err, want)
		}
	}
}

func TestLife(t *testing.T) {
	t.Parallel()
	h := start(t, marker.Identity{}, "exit", "259") // STILL_ACTIVE
	p := open(t, h.pid())
	if s, err := p.State(); s != Alive || err != nil {
		t.Errorf("State = %v, %v", s, err)
	}
	before, err := p.Birth()
	if err != nil || before.Start == 0 || before.PID != h.pid() {
		t.Fatalf("Birth = %+v, %v", before, err)
	}
	if ppid, err := p.Parent(); ppid != os.Getpid() || err != nil {
		t.Errorf("Parent = %d, %v, want %d", ppid, err, os.Getpid())
	}
	h.goOn()
	gone(t, p)
	if s, err := p.State(); s != Gone || err != nil || !p.Exited() {
		t.Errorf("State = %v, %v, after an exit with 259", s, err)
	}
	h.kill()
	if after, err := p.Birth(); !after.Same(before) || err != nil {
		t.Errorf("Birth = %+v, %v, was %+v", after, err, before)
	}
	for name, err := range map[string]error{
		"Parent":      second(p.Parent()),
		"Group":       second(p.Group()),
		"Info":        second(p.Info()),
		"Marker":      second(p.Marker()),
		"Signal":      p.Signal(syscall.SIGKILL),
		"SignalGroup": p.SignalGroup(syscall.SIGKILL),
	} {
		if !errors.Is(err, ErrGone) {
			t.Errorf("%s says %v", name, err)
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := p.State(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("State says %v after Close", err)
	}
	if _, err := Open(h.pid()); err != nil && !errors.Is(err, ErrGone) {
		t.Errorf("Open says %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestPidIsPinned(t *testing.T) {
	t.Parallel()
	h := start(t, marker.Identity{}, "serve", "")
	p := open(t, h.pid())
	h.kill()
	gone(t, p)
	for range 20 {
		cmd := self("once", "", nil)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if cmd.Process.Pid == h.pid() {
			t.Error("the pid of a held process was given away")
		}
		_ = cmd.Wait()
	}
}

func TestWaitEnds(t *testing.T) {
	t.Parallel()
	h := start(t, marker.Identity{}, "serve", "")
	p := open(t, h.pid())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait says %v", err)
	}
	cause := errors.New("enough")
	ctx, stop := context.WithCancelCause(t.Context())
	time.AfterFunc(20*time.Millisecond, func() { stop(cause) })
	if err := p.Wait(ctx); !errors.Is(err, cause) {
		t.Errorf("Wait says %v", err)
	}
	time.AfterFunc(20*time.Millisecond, func() { _ = p.Close() })
	if err := p.Wait(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Wait says %v", err)
	}
}

func TestSignal(t *testing.T) {
	t.Parallel()
	h := start(t, marker.Identity{}, "serve", "")
	p := open(t, h.pid())
	if err := p.Signal(0); err != nil {
		t.Errorf("signal 0: %v", err)
	}
	if err := p.Signal(syscall.SIGHUP); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("SIGHUP: %v", err)
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Errorf("SIGKILL: %v", err)
	}
	if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, ErrGone) {
		t.Errorf("SIGKILL while it ends: %v", err)
	}
	gone(t, p)
}

func TestInfo(t *testing.T) {
	t.Parallel()
	h := start(t, marker.Identity{}, "serve", "")
	info, err := open(t, h.pid()).Info()
	if err != nil {
		t.Fatal(err)
	}
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if info.PID != h.pid() || info.PPID != os.Getpid() || info.State != Alive || info.UID != -1 ||
		info.User == "" || !strings.EqualFold(info.Command, filepath.Base(path)) || !slices.Equal(info.Args, h.cmd.Args) {
		t.Errorf("Info = %+v", info)
	}
}

func TestSelf(t *testing.T) {
	t.Parallel()
	b, err := Self()
	if err != nil || b.PID != os.Getpid() || !b.Same(b) {
		t.Errorf("Self = %+v, %v", b, err)
	}
	h := start(t, testIdentity("x"), "self-marker", "")
	// The block is live: others see what a process says of itself now.
	id, err := open(t, h.pid()).Marker()
	if err != nil || id != (marker.Identity{Kind: marker.KindHost, Installation: "late"}) {
		t.Errorf("Marker = %v, %v", id, err)
	}
}

func TestCoverage(t *testing.T) {
	t.Parallel()
	c := Coverage()
	if !c.Supported || !c.Hold || !c.HeldGroup || !c.Environ || !c.Sockets || c.OS != "windows" || c.Release == "" {
		t.Errorf("Coverage = %+v", c)
	}
	t.Logf("%+v", c)
}
