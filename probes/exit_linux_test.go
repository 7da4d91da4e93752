package probes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/plughost/plughost/shared/marker"
)

// Ways to end, and what is told of them.
var ends = []struct {
	name string
	line string // for the shell
	want ExitStatus
	text string
}{
	{"success", "exit 0", ExitStatus{}, "exit status 0"},
	{"failure", "exit 78", ExitStatus{Code: 78}, "exit status 78"},
	{"highest code", "exit 255", ExitStatus{Code: 255}, "exit status 255"},
	{"killed", "kill -9 $$", ExitStatus{Code: -1, Signal: syscall.SIGKILL}, "signal: killed"},
	{"terminated", "kill -15 $$", ExitStatus{Code: -1, Signal: syscall.SIGTERM}, "signal: terminated"},
}

// A child is asked of while it is a zombie, and again after it was reaped.
func TestExitStatusOfChild(t *testing.T) {
	t.Parallel()
	for _, tt := range ends {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := startShell(t, "echo ready; read line; "+tt.line)
			p := open(t, h.pid())
			if _, err := p.ExitStatus(); !errors.Is(err, ErrNotExited) {
				t.Errorf("as long as it lives: %v", err)
			}
			_ = h.stdin.Close()
			if err := p.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got, err := p.ExitStatus(); err != nil || got != tt.want {
					t.Errorf("of a zombie: %+v, %v, want %+v", got, err, tt.want)
				}
			}
			if s, err := p.State(); err != nil || s != Zombie {
				t.Errorf("it is %v, %v, and was to stay a zombie", s, err)
			}
			h.await()
			got, err := p.ExitStatus()
			if skipUnsupported(t, err); err != nil || got != tt.want || got.String() != tt.text {
				t.Errorf("of a reaped one: %+v (%s), %v, want %+v", got, got, err, tt.want)
			}
			if got.Success() != (tt.name == "success") {
				t.Errorf("success: %t", got.Success())
			}
		})
	}
}

// The status of another's child is known once that one has reaped it.
func TestExitStatusOfStranger(t *testing.T) {
	t.Parallel()
	for _, tt := range ends {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := start(t, "reaper", tt.line)
			p := open(t, h.numbers[0])
			if _, err := p.ExitStatus(); !errors.Is(err, ErrNotExited) {
				t.Errorf("as long as it lives: %v", err)
			}
			h.say("end it")
			if err := p.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := p.ExitStatus(); !errors.Is(err, ErrNotReaped) {
				t.Errorf("of a zombie: %v", err)
			}
			h.say("reap it")
			h.next()
			got, err := p.ExitStatus()
			if skipUnsupported(t, err); err != nil || got != tt.want {
				t.Errorf("of a reaped one: %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

// partReaper ends and reaps a child when it is told to.
func partReaper(line string) {
	child := shell("read line; " + line)
	in, err := child.StdinPipe()
	if err != nil {
		fatal(err)
	}
	if err := child.Start(); err != nil {
		fatal(err)
	}
	ready(child.Process.Pid)
	cues := bufio.NewReader(os.Stdin)
	_, _ = cues.ReadString('\n')
	_ = in.Close()
	_, _ = cues.ReadString('\n')
	_ = child.Wait()
	ready()
	untilEOF()
}

// That of a zombie which another does not reap is not known, and is not made up.
func TestExitStatusOfZombie(t *testing.T) {
	t.Parallel()
	p := open(t, start(t, "zombie", "").numbers[0])
	if err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := p.ExitStatus(); !errors.Is(err, ErrNotReaped) {
		t.Errorf("%+v, %v, want not reaped", got, err)
	}
	_ = p.Close()
	if _, err := p.ExitStatus(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("of a closed one: %v", err)
	}
}

func TestExitStatusOfCoreDump(t *testing.T) {
	t.Parallel()
	if got, want := waitStatus(unix.WaitStatus(0x80|syscall.SIGSEGV)), (ExitStatus{Code: -1, Signal: syscall.SIGSEGV, CoreDumped: true}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if s := waitStatus(unix.WaitStatus(0x80 | syscall.SIGSEGV)).String(); !strings.HasSuffix(s, "(core dumped)") {
		t.Errorf("it says %q", s)
	}
}

// Older kernels say in several ways that they don't know.
func TestExitStatusOfOlderKernels(t *testing.T) {
	t.Parallel()
	for _, errno := range []unix.Errno{unix.ENOTTY, unix.EINVAL, unix.ESRCH} {
		t.Run(unix.ErrnoName(errno), func(t *testing.T) {
			t.Parallel()
			out, err := self("exit-status", strconv.Itoa(int(errno)), marker.Scrub(os.Environ())).Output()
			if err != nil {
				t.Fatal(err)
			}
			if reason, ok := strings.CutPrefix(string(out), "skip:"); ok {
				t.Skipf("no seccomp: %s", reason)
			}
			if want := "zombie: exit status 3\nreaped: true\n"; string(out) != want {
				t.Errorf("it says:\n%swant:\n%s", out, want)
			}
		})
	}
}

// partExitStatus asks for the status of its own child, on a kernel that answers
// with the given error.
func partExitStatus(arg string) {
	errno, _ := strconv.Atoi(arg)
	if err := restrict([]rule{{call: unix.SYS_IOCTL, argument: 1, value: unix.PIDFD_GET_INFO, errno: unix.Errno(errno)}}); err != nil {
		fmt.Println("skip:", err)
		return
	}
	child := shell("exit 3")
	if err := child.Start(); err != nil {
		fatal(err)
	}
	p, err := Open(child.Process.Pid)
	if err != nil {
		fatal(err)
	}
	if err := p.Wait(context.Background()); err != nil {
		fatal(err)
	}
	status, err := p.ExitStatus()
	if err != nil {
		fatal(err)
	}
	fmt.Println("zombie:", status)
	_ = child.Wait()
	_, err = p.ExitStatus()
	fmt.Println("reaped:", errors.Is(err, errors.ErrUnsupported))
}

// skipUnsupported ends a test if the kernel can't say how a process ended.
func skipUnsupported(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("it needs Linux 6.15: %v", err)
	}
}
