package probes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/plughost/plughost/shared/marker"
)

// State is the state of life of a process.
type State int

// The states of life. A process that is being traced, is stopped, or sleeps is
// alive.
const (
	StateUnknown State = iota
	Alive              // at least one of its threads can still run
	Zombie             // exited, not yet reaped by its parent
	Gone               // exited and reaped
)

// String returns the state in lower case.
func (s State) String() string {
	switch s {
	case Alive:
		return "alive"
	case Zombie:
		return "zombie"
	case Gone:
		return "gone"
	default:
		return "unknown"
	}
}

// MarshalText encodes the state as String does.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Info describes a process to a person. It is no proof of anything.
type Info struct {
	PID     int      `json:"pid"`
	PPID    int      `json:"ppid"` // 0 if the parent is outside of the pid namespace
	PGID    int      `json:"pgid"`
	State   State    `json:"state"`
	UID     int      `json:"uid"`              // effective user id; -1 on Windows
	User    string   `json:"user,omitempty"`   // name of that user; empty if it has none
	Command string   `json:"command"`          // short name, which the process can change
	Args    []string `json:"args,omitempty"`   // command line, cut at 4 KiB; empty for a zombie
	Kernel  bool     `json:"kernel,omitempty"` // a thread of the kernel
}

// Process is a process that is held: whatever becomes of it, its handle never
// refers to another one, even after the pid has been given away anew. All
// methods may be called by several goroutines at once.
type Process struct {
	pid    int
	handle handle // of the operating system

	closing context.Context // done as soon as Close was called
	cancel  context.CancelFunc
	using   sync.RWMutex // read-held while handle is in use
}

// Open holds the process with the given pid.
//
// It fails with ErrInvalidPID, with ErrSelf for the calling process, with
// ErrGone if no process has that pid (that of a thread is none), with
// ErrPermission, or with the wrapped error of the system, such as EMFILE. The
// process may be a zombie. The caller has to Close what it opened.
//
// On Linux this is pidfd_open(2), of Linux 5.3 and later; on macOS and FreeBSD
// it takes a kqueue, that is, a descriptor too, until the process exits; on
// Windows OpenProcess, which also opens a process that has exited if somebody
// else holds it.
func Open(pid int) (*Process, error) {
	if err := checkPID(pid); err != nil {
		return nil, err
	}
	return hold(pid)
}

// ownPID is the calling process. It does not change.
var ownPID = os.Getpid()

// checkPID refuses the pids that must never be acted on.
func checkPID(pid int) error {
	switch {
	case pid <= 0 || pid > maxPID:
		return fmt.Errorf("pid %d: %w", pid, ErrInvalidPID)
	case pid == ownPID:
		return fmt.Errorf("pid %d: %w", pid, ErrSelf)
	}
	return nil
}

// hold opens any process, the calling one too.
func hold(pid int) (*Process, error) {
	h, err := openHandle(pid)
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	return newProcess(pid, h), nil
}

func newProcess(pid int, h handle) *Process {
	p := &Process{pid: pid, handle: h}
	p.closing, p.cancel = context.WithCancel(context.Background())
	return p
}

// PID returns the pid by which the process was opened.
func (p *Process) PID() int { return p.pid }

// Birth returns the process's birth record. It can be had as long as nobody
// reaped the process; then the error wraps ErrGone.
//
// On Linux the start comes from /proc/PID/stat and is believed only if the
// pidfd shows afterwards that the pid was still the process's.
func (p *Process) Birth() (Birth, error) {
	var b Birth
	err := p.use("birth record", func(h handle) (err error) {
		b, err = h.birth()
		return err
	})
	return b, err
}

// State returns the state of life. On Linux the pidfd alone answers: it is
// readable once all threads have exited, and has no process once it is reaped.
func (p *Process) State() (State, error) {
	var s State
	err := p.use("state", func(h handle) (err error) {
		s, err = h.state()
		return err
	})
	return s, err
}

// Parent returns the pid of the process's parent, 0 if that one is outside of
// the pid namespace or, on Windows, has exited. The error wraps ErrGone once the
// process is reaped.
func (p *Process) Parent() (int, error) {
	var ppid int
	err := p.use("parent", func(h handle) (err error) {
		ppid, err = h.parent()
		return err
	})
	return ppid, err
}

// Group returns the id of the process's group, 0 if its leader is outside of
// the pid namespace. The error wraps ErrGone once the process is reaped. On
// Windows it is the console process group, 0 if the process does not say.
func (p *Process) Group() (int, error) {
	var pgid int
	err := p.use("group", func(h handle) (err error) {
		pgid, err = h.group()
		return err
	})
	return pgid, err
}

// Info describes the process, to name it to a person. Details that the system
// withholds are left empty. The error wraps ErrGone once the process is reaped.
func (p *Process) Info() (Info, error) {
	var info Info
	err := p.use("description", func(h handle) (err error) {
		info, err = h.info()
		return err
	})
	return info, err
}

// Exited reports whether the process has exited, reaped or not. A process of
// which this can't be told, since it was closed, counts as not exited.
func (p *Process) Exited() bool {
	exited := false
	_ = p.use("state", func(h handle) (err error) {
		exited, err = h.exited()
		return err
	})
	return exited
}

// Wait returns nil once the process has exited, which need not be a child of
// the caller, or the cause of ctx's end. It does not reap. A Close meanwhile
// ends it with an error that wraps os.ErrClosed.
//
// On Linux the exit is an event on the pidfd; no thread is blocked. On macOS and
// FreeBSD one thread waits on a kqueue for all of them. On Windows each call
// blocks a thread, in WaitForMultipleObjects.
func (p *Process) Wait(ctx context.Context) error {
	return p.use("wait", func(h handle) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		stop := context.AfterFunc(p.closing, func() { cancel(os.ErrClosed) })
		defer stop()
		return h.wait(ctx)
	})
}

// Signal sends a signal to the process, and to no other that has its pid now.
// The error wraps ErrGone once it is reaped, or ErrPermission. A zombie takes
// any signal without effect.
//
// On Windows SIGKILL is TerminateProcess. SIGTERM is a Ctrl-Break to the console
// process group, if the process leads one on the caller's console. Everything
// else is errors.ErrUnsupported.
func (p *Process) Signal(sig syscall.Signal) error {
	return p.use("signal", func(h handle) error { return h.signal(sig) })
}

// SignalGroup sends a signal to every process of the group that the process
// leads. The error wraps ErrNotLeader if it leads none, ErrGone if the group is
// empty, ErrSelf if the caller is a member, or ErrPermission.
//
// On Linux 6.9 and later this works after the leader was reaped, too, provided
// that it had been opened before: the pidfd stands for the group as long as it
// has a member. On older kernels, macOS and FreeBSD it is kill(2) of the negative
// pid, as long as the leader is not reaped; after that, ErrGone.
//
// On Windows every process leads a group for this purpose: itself, those of its
// descendants that are proven to be so by their creators' pids and times of
// creation, and the job that JobObject.Assign put it into. There, too, it works
// after the leader's exit. SIGTERM reaches what Signal reaches.
func (p *Process) SignalGroup(sig syscall.Signal) error {
	return p.use("signal group", func(h handle) error { return h.signalGroup(sig) })
}

// Close lets go of the process, which itself is not touched. It ends what is
// in progress on other goroutines. A second call does nothing.
func (p *Process) Close() error {
	p.cancel()
	p.using.Lock()
	defer p.using.Unlock()
	return p.handle.close()
}

// use runs f while the handle is kept from being closed. It must not be called
// from within f: a waiting Close would block the inner call for ever.
func (p *Process) use(what string, f func(handle) error) error {
	p.using.RLock()
	defer p.using.RUnlock()
	if p.closing.Err() != nil {
		return fmt.Errorf("%s of process %d: %w", what, p.pid, os.ErrClosed)
	}
	err := f(p.handle)
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%s of process %d: %w", what, p.pid, err)
}

// Self returns the calling process's own birth record.
func Self() (Birth, error) {
	p, err := hold(os.Getpid())
	if err != nil {
		return Birth{}, err
	}
	defer p.Close()
	return p.Birth()
}

// SelfMarker returns what the calling process's environment says of it to
// others: the block of its last exec, which os.Setenv does not change; on Windows
// it does. The errors are those of marker.Parse, or wrap ErrUnreadable.
func SelfMarker() (marker.Identity, error) {
	block, err := ownEnviron()
	if err != nil {
		return marker.Identity{}, fmt.Errorf("own environment: %w: %w", ErrUnreadable, err)
	}
	return marker.Parse(block)
}
