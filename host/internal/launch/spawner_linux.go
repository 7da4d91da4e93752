package launch

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// restrictedThread is a second thread of a spawner, under which nobody can
// ever gain privileges by an exec (PR_SET_NO_NEW_PRIVS): a thread can only set
// that for itself, never take it back, and passes it on to its children. It
// lives as long as the process, like the first.
type restrictedThread struct {
	mu       sync.Mutex
	requests chan spawnRequest // nil until there is one
}

// spawn is Start with what only the thread that forks can do for the child.
func (s *Spawner) spawn(cmd *exec.Cmd, noNewPrivs bool, adjust func(pid int) error) error {
	if adjust != nil {
		// The child stops when it has its new image, before the first
		// instruction of it (ptrace(2)).
		cmd.SysProcAttr.Ptrace = true
	}
	thread := s.thread()
	if noNewPrivs {
		var err error
		if thread, err = s.restrict(); err != nil {
			return err
		}
	}
	return ask(thread, cmd, adjust)
}

func (s *Spawner) restrict() (chan<- spawnRequest, error) {
	s.restricted.mu.Lock()
	defer s.restricted.mu.Unlock()
	if s.restricted.requests != nil {
		return s.restricted.requests, nil
	}
	requests, restricted := make(chan spawnRequest), make(chan error)
	go func() {
		// A goroutine that ends with its thread locked takes the thread along.
		runtime.LockOSThread()
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		restricted <- err
		if err == nil {
			s.run(requests)
		}
	}()
	if err := <-restricted; err != nil {
		return nil, fmt.Errorf("cannot set no_new_privs: %w", err)
	}
	s.restricted.requests = requests
	return requests, nil
}

// atExec calls adjust while a traced child of this thread is stopped at the
// end of its exec, and lets it go on. If that fails the child is still stopped.
func atExec(pid int, adjust func(pid int) error) error {
	for {
		var info unix.Siginfo
		// The status stays: if the child was killed meanwhile it is reaped as
		// every other.
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("cannot wait for the exec of process %d: %w", pid, err)
		}
		if info.Code != cldTrapped {
			return nil // it has ended
		}
		if err := adjust(pid); err != nil {
			return err
		}
		if err := syscall.PtraceDetach(pid); err != nil {
			return fmt.Errorf("cannot let process %d go: %w", pid, err)
		}
		return nil
	}
}

// cldTrapped is CLD_TRAPPED of siginfo: a traced child has stopped.
const cldTrapped = 4
