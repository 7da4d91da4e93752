//go:build darwin || freebsd

package probes

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxPID is the greatest pid that XNU and FreeBSD give (PID_MAX).
const maxPID = 99999

// handle is a kqueue that watches one process for its exit.
//
// Neither system lends a descriptor of a process that is not one's child, so
// the hold is made of two things. The kqueue's EVFILT_PROC belongs to the
// process that had the pid when it was added, and fires once that one exits: as
// long as it has not fired, the pid is the process's own. And from then on, its
// birth tells the zombie from whoever has the pid next.
type handle = *watched

type watched struct {
	pid  int
	born birth

	mu   sync.Mutex // guards what follows
	kq   int        // -1 once the process has exited, or the handle was closed
	dead bool       // it has exited
	pgid int        // its group when that was last asked
}

// birth is what the kernel says of one process only. A clock that is set does
// not change it.
type birth struct {
	start  uint64 // microseconds, of the clock when it was born or since the boot
	unique uint64 // a number that the kernel gave to it alone; 0 if it is not told
}

// same reports whether both are of one process. The number counts only if both
// have it: of a process on its way out it is not told.
func (b birth) same(o birth) bool {
	return b.start == o.start && (b.unique == o.unique || b.unique == 0 || o.unique == 0)
}

// process is what the kernel says of a process in one answer.
type process struct {
	birth
	pid, ppid, pgid int
	uid             int // effective
	command         string
	zombie          bool
	forked          bool // executed nothing since it was forked
	kernel          bool // a part of the kernel
}

// sandwiches is how often a pid is looked at that goes from hand to hand.
const sandwiches = 10

func openHandle(pid int) (handle, error) {
	for range sandwiches {
		h, err := tryWatch(pid)
		if h != nil || err != nil {
			return h, err
		}
	}
	return nil, fmt.Errorf("%w: its pid changes hands", ErrGone)
}

// tryWatch attaches a kqueue to the process that has the pid. It returns
// nothing if that changed meanwhile: who had the pid before the kqueue was
// attached, and has it afterwards, is the one that it was attached to.
func tryWatch(pid int) (handle, error) {
	before, err := readProcess(pid)
	if err != nil {
		return nil, err
	}
	h := &watched{pid: pid, born: before.birth, pgid: before.pgid, kq: -1}
	kq, err := newKqueue()
	if err != nil {
		return nil, err
	}
	err = watchExit(kq, pid)
	switch {
	case err == nil:
		h.kq = kq
	case errors.Is(err, unix.ESRCH):
		// It is gone, is a zombie, or on its way there.
		h.dead = true
		_ = unix.Close(kq)
	default:
		_ = unix.Close(kq)
		return nil, fmt.Errorf("kevent: %w", typed(err))
	}
	after, err := readProcess(pid)
	if err == nil && after.same(before.birth) {
		return h, nil
	}
	_ = h.close()
	return nil, err
}

func newKqueue() (int, error) {
	kq, err := retry(unix.Kqueue)
	if err != nil {
		return -1, fmt.Errorf("kqueue: %w", err)
	}
	unix.CloseOnExec(kq)
	return kq, nil
}

// watchExit asks a kqueue to tell of the exit of a process, once.
func watchExit(kq, pid int) error {
	change := make([]unix.Kevent_t, 1)
	unix.SetKevent(&change[0], pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	change[0].Fflags = unix.NOTE_EXIT
	_, err := retry(func() (int, error) { return unix.Kevent(kq, change, nil, nil) })
	return err
}

// retry repeats a system call that a signal interrupted.
func retry[T any](f func() (T, error)) (T, error) {
	for {
		v, err := f()
		if !errors.Is(err, unix.EINTR) {
			return v, err
		}
	}
}

// typed puts the package's own error before that of the system.
func typed(err error) error {
	switch {
	case errors.Is(err, ErrGone), errors.Is(err, ErrPermission):
		return err
	case errors.Is(err, unix.ESRCH):
		return fmt.Errorf("%w: %w", ErrGone, err)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: %w", ErrPermission, err)
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return err
}

// exited reports whether the process has exited. The answer is of the moment:
// the kqueue is polled.
func (h *watched) exited() (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead {
		return true, nil
	}
	if h.kq < 0 {
		return false, os.ErrClosed
	}
	events := make([]unix.Kevent_t, 1)
	n, err := retry(func() (int, error) { return unix.Kevent(h.kq, nil, events, &unix.Timespec{}) })
	if err != nil {
		return false, fmt.Errorf("kevent: %w", err)
	}
	if n > 0 {
		h.dead = true
		_ = unix.Close(h.kq)
		h.kq = -1
	}
	return h.dead, nil
}

// read asks the kernel about the process. The error is ErrGone once it was
// reaped, whoever has its pid now.
func (h *watched) read() (process, error) {
	p, err := readProcess(h.pid)
	if err != nil {
		return process{}, err
	}
	if !p.same(h.born) {
		return process{}, ErrGone
	}
	return p, nil
}

// held returns nil as long as nobody has reaped the process: until then its pid
// is its own. Whatever was read under the pid before held was asked is the
// process's.
func (h *watched) held() error {
	exited, err := h.exited()
	if err != nil || !exited {
		return err
	}
	_, err = h.read()
	return err
}

func (h *watched) birth() (Birth, error) {
	boot, err := BootID()
	if err != nil {
		return Birth{}, err
	}
	if err := h.held(); err != nil {
		return Birth{}, err
	}
	return Birth{BootID: boot, PID: h.pid, Start: h.born.start}, nil
}

// state tells by the kqueue whether the process has exited: the event comes a
// moment before the kernel calls it a zombie.
func (h *watched) state() (State, error) {
	exited, err := h.exited()
	if err != nil {
		return StateUnknown, err
	}
	if !exited {
		return Alive, nil
	}
	switch _, err := h.read(); {
	case err == nil:
		return Zombie, nil
	case errors.Is(err, ErrGone):
		return Gone, nil
	default:
		return StateUnknown, err
	}
}

func (h *watched) parent() (int, error) {
	p, err := h.read()
	return p.ppid, err
}

// group returns the process's group. A zombie may have left it.
func (h *watched) group() (int, error) {
	p, err := h.read()
	if err != nil {
		return 0, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.pgid > 0 {
		h.pgid = p.pgid
	}
	return h.pgid, nil
}

func (h *watched) info() (Info, error) {
	p, err := h.read()
	if err != nil {
		return Info{}, err
	}
	info := Info{PID: h.pid, PPID: p.ppid, PGID: p.pgid, UID: p.uid, Command: p.command, Kernel: p.kernel}
	if info.State, err = h.state(); err != nil {
		return Info{}, err
	}
	if info.State == Alive {
		if args, err := readArgs(h.pid); err == nil {
			info.Args = shorten(args)
		}
	}
	if err := h.held(); err != nil {
		return Info{}, err
	}
	info.User = userName(p.uid)
	return info, nil
}

// shorten cuts a command line at 4 KiB.
func shorten(args []string) []string {
	const limit = 4096
	size := 0
	for i, arg := range args {
		if size += len(arg) + 1; size > limit {
			kept := append([]string(nil), args[:i]...)
			return append(kept, arg[:len(arg)-min(size-limit, len(arg))])
		}
	}
	return args
}

// userName returns the name of a user, or nothing if it has none.
func userName(uid int) string {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return ""
	}
	return u.Username
}

// signal sends a signal to the process. What has exited takes any signal
// without effect until it is reaped.
func (h *watched) signal(sig syscall.Signal) error {
	exited, err := h.exited()
	if err != nil {
		return err
	}
	if exited {
		return h.held()
	}
	return h.deliver(sig)
}

// checkAndKill sends a signal with kill(2), after a last look at the kqueue and
// the birth.
//
// The look and the kill are two system calls. A stranger could only be hit if
// between them the process exited, was reaped, and the system went once through
// all other pids to give its own anew: microseconds for what takes a machine
// that does nothing but fork a second at least. While the process is the
// caller's child, and not waited for, it can't happen at all.
func (h *watched) checkAndKill(sig syscall.Signal) error {
	if _, err := h.read(); err != nil {
		return err
	}
	if exited, err := h.exited(); err != nil || exited {
		return err
	}
	if err := unix.Kill(h.pid, sig); err != nil {
		if errors.Is(err, unix.ESRCH) && h.held() == nil {
			return nil // a zombie by now
		}
		return typed(err)
	}
	return nil
}

func (h *watched) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.kq < 0 {
		return nil
	}
	err := unix.Close(h.kq)
	h.kq = -1
	return os.NewSyscallError("close", err)
}
