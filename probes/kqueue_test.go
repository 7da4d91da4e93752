//go:build darwin || freebsd

package probes

import (
	"context"
	"errors"
	"fmt"
	"os"
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

func TestCoverage(t *testing.T) {
	t.Parallel()
	c := Coverage()
	if c.OS != runtime.GOOS || c.Release == "" || !c.Supported || !c.Environ || len(c.Notes) == 0 {
		t.Errorf("Coverage = %+v", c)
	}
	if c.AllUsers != (os.Geteuid() == 0) || c.UniqueBirth || c.HeldGroup {
		t.Errorf("Coverage = %+v", c)
	}
	t.Logf("%+v", c)
}

// A process can be opened when it is a zombie already.
func TestOpenZombie(t *testing.T) {
	t.Parallel()
	h := start(t, "serve", "")
	living := open(t, h.pid())
	birth, err := living.Birth()
	if err != nil {
		t.Fatal(err)
	}
	if err := living.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := living.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	zombie := open(t, h.pid())
	if s, err := zombie.State(); err != nil || s != Zombie {
		t.Errorf("State = %v, %v, want zombie", s, err)
	}
	if b, err := zombie.Birth(); err != nil || b != birth {
		t.Errorf("Birth = %+v, %v, want %+v", b, err, birth)
	}
	if err := zombie.Wait(t.Context()); err != nil {
		t.Errorf("Wait says %v", err)
	}
	for _, sig := range []syscall.Signal{0, syscall.SIGTERM} {
		if err := zombie.Signal(sig); err != nil {
			t.Errorf("signal %d to the zombie: %v", sig, err)
		}
	}
	h.await()
	for _, p := range []*Process{living, zombie} {
		if s, err := p.State(); err != nil || s != Gone {
			t.Errorf("State = %v, %v, want gone", s, err)
		}
		if err := p.Signal(syscall.SIGTERM); !errors.Is(err, ErrGone) {
			t.Errorf("Signal says %v, want gone", err)
		}
	}
}

// What systems that can't bind a signal to a process are left with.
func TestCheckAndKill(t *testing.T) {
	t.Parallel()
	h := start(t, "serve", "")
	p := open(t, h.pid())
	if err := p.handle.checkAndKill(0); err != nil {
		t.Errorf("signal 0: %v", err)
	}
	if err := p.handle.checkAndKill(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.handle.checkAndKill(syscall.SIGKILL); err != nil {
		t.Errorf("to the zombie: %v", err)
	}
	h.await()
	if err := p.handle.checkAndKill(syscall.SIGKILL); !errors.Is(err, ErrGone) {
		t.Errorf("after it was reaped: %v, want gone", err)
	}
}

// A handle whose process is another one's by birth reaches nobody.
func TestOtherBirth(t *testing.T) {
	t.Parallel()
	h := start(t, "serve", "")
	p := open(t, h.pid())
	p.handle.born.start--
	if err := p.handle.checkAndKill(syscall.SIGKILL); !errors.Is(err, ErrGone) {
		t.Errorf("checkAndKill says %v, want gone", err)
	}
	if _, err := p.Info(); !errors.Is(err, ErrGone) {
		t.Errorf("Info says %v, want gone", err)
	}
	if _, err := p.Group(); !errors.Is(err, ErrGone) {
		t.Errorf("Group says %v, want gone", err)
	}
	if open(t, h.pid()).Exited() {
		t.Error("it was ended")
	}
}

// Many wait at once, some for the same processes, with one thread among them.
func TestWaitMany(t *testing.T) {
	t.Parallel()
	var waits sync.WaitGroup
	for range 12 {
		h := start(t, "serve", "")
		p := open(t, h.pid())
		for range 5 {
			waits.Go(func() {
				if err := p.Wait(t.Context()); err != nil {
					t.Error(err)
				}
				if !p.Exited() {
					t.Error("it has not exited")
				}
			})
		}
		waits.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := p.Wait(ctx); !errors.Is(err, context.Canceled) && err != nil {
				t.Error(err)
			}
		})
		if err := h.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	waits.Wait()
}

// Waiting takes no descriptor that is not given back, but for the watcher's,
// and leaves nobody on its list.
func TestWaitLeavesNothing(t *testing.T) {
	p := open(t, start(t, "serve", "").pid())
	// The watcher starts with the first wait.
	first, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := p.Wait(first); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	before := openFiles()
	for range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		var waits sync.WaitGroup
		for range 100 {
			waits.Go(func() { _ = p.Wait(ctx) })
		}
		cancel()
		waits.Wait()
	}
	if after := openFiles(); after > before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
	exits.mu.Lock()
	defer exits.mu.Unlock()
	if n := len(exits.waiters[p.PID()]); n > 0 {
		t.Errorf("%d are left on the list", n)
	}
}

// What others see of an environment is what the program was given.
func TestEnvironIsAsGiven(t *testing.T) {
	t.Parallel()
	id, _ := ids(t)
	cmd := self("environ", "", marker.Scrub(os.Environ()))
	cmd.Env = append(cmd.Env, append(id.Environ(), "PROBES_TEST_EMPTY=", "PROBES_TEST_LINES=a\nb")...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := strconv.Unquote(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimRight(text, "\x00"), "\x00")
	want := cmd.Environ()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("environment is\n%q, want\n%q", got, want)
	}
}

func TestReadArgs(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"helper"}, {"", "x"}, {"a", "", "b c", ""}, {strings.Repeat("x", 3000)}} {
		pid := startArgs(t, args)
		got, err := readArgs(pid)
		// FreeBSD's has no end of its own.
		if runtime.GOOS == "freebsd" {
			for len(args) > 0 && args[len(args)-1] == "" {
				args = args[:len(args)-1]
			}
		}
		if err != nil || !slices.Equal(got, args) {
			t.Errorf("arguments are %.80q, %v, want %.80q", got, err, args)
		}
	}
}

// startArgs starts a helper with just these arguments.
func startArgs(t *testing.T, args []string) int {
	t.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.StartProcess(selfExe, args, &os.ProcAttr{
		Env:   append(marker.Scrub(os.Environ()), helperEnv+"=serve"),
		Files: []*os.File{inR, outW, os.Stderr},
	})
	_, _ = inR.Close(), outW.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = inW.Close()
		_ = p.Kill()
		_, _ = p.Wait()
		_ = outR.Close()
	})
	var buf [64]byte
	if _, err := outR.Read(buf[:]); err != nil {
		t.Fatal(err)
	}
	return p.Pid
}

func TestShorten(t *testing.T) {
	t.Parallel()
	long := []string{"a", strings.Repeat("b", 4000), strings.Repeat("c", 4000), "d"}
	before := slices.Clone(long)
	got := shorten(long)
	size := 0
	for _, arg := range got {
		size += len(arg) + 1
	}
	if len(got) != 3 || size > 4097 || got[0] != "a" || !slices.Equal(long, before) {
		t.Errorf("%d arguments of %d bytes", len(got), size)
	}
	if got := shorten([]string{"a", "b"}); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%q", got)
	}
}

// The processes that the kernel lists are those that it shows one by one.
func TestProcesses(t *testing.T) {
	t.Parallel()
	h := start(t, "leader", "serve", withGroup())
	find := func(list []process, err error) map[int]process {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		byPID := make(map[int]process)
		for _, p := range list {
			byPID[p.pid] = p
		}
		return byPID
	}
	all, mine, group := find(readAll()), find(readUser(os.Geteuid())), find(readGroup(h.pid()))
	for _, pid := range []int{h.pid(), h.numbers[0]} {
		one, err := readProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		if one.kernel || one.forked || one.zombie || one.uid != os.Geteuid() || one.pgid != h.pid() || one.start == 0 {
			t.Errorf("process %d: %+v", pid, one)
		}
		one.unique = 0
		for name, list := range map[string]map[int]process{"all": all, "mine": mine, "group": group} {
			if list[pid] != one {
				t.Errorf("%s: %+v, want %+v", name, list[pid], one)
			}
		}
	}
	if _, ok := all[os.Getpid()]; !ok || len(group) != 2 {
		t.Errorf("of %d processes, %d are in the group", len(all), len(group))
	}
	if list, err := readGroup(maxPID + 1); len(list) > 0 {
		t.Errorf("a group that is none has %+v, %v", list, err)
	}
}

func BenchmarkScan(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := List(context.Background(), Filter{Installation: "none of them"}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkListeners(b *testing.B) {
	port, err := listenAnywhere()
	if err != nil {
		b.Fatal(err)
	}
	for _, hints := range [][]int{nil, {os.Getpid()}} {
		b.Run(fmt.Sprintf("hints=%d", len(hints)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Listeners(context.Background(), port, hints...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
