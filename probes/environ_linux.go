package probes

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// environ takes one look at the process's environment. Failures that may be
// due to a moment of exec are errAgain.
func (h *pidfd) environ() (environ, error) {
	if err := checkProc(); err != nil {
		return environ{}, unreadable(err)
	}
	// The flags come first: a process that has executed something by now does
	// not show its parent's block any more.
	s, err := h.stat()
	if err != nil {
		return environ{}, unreadableUnlessGone(err)
	}
	if s.kernel() {
		return environ{}, nil
	}
	path := procPath(h.pid, "environ")
	if s.dead() && s.threads > 1 {
		path = h.livingThread(path)
	}
	block, _, readErr := readEnviron(unix.AT_FDCWD, path, make([]byte, 32<<10))
	if err := h.alive(); err != nil {
		return environ{}, err
	}
	switch {
	case readErr == nil && len(block) == 0:
		// Either the process has no environment or is about to get it.
		after, err := h.stat()
		if err != nil {
			return environ{}, unreadableUnlessGone(err)
		}
		if !after.noEnviron() {
			return environ{}, errAgain{fmt.Errorf("%w: it is empty", ErrUnreadable)}
		}
	case readErr == nil && block[len(block)-1] != 0:
		return environ{}, errAgain{fmt.Errorf("%w: it was overwritten", ErrUnreadable)}
	case errors.Is(readErr, unix.EACCES), errors.Is(readErr, unix.EPERM):
		err := unreadable(typed(readErr))
		if mayRead(h.pid) {
			return environ{}, errAgain{err}
		}
		return environ{}, err
	case errors.Is(readErr, unix.ESRCH), errors.Is(readErr, unix.ENOENT), errors.Is(readErr, errCut):
		// Not typed: the process itself is there.
		return environ{}, errAgain{unreadable(readErr)}
	case readErr != nil:
		return environ{}, unreadable(readErr)
	}
	return environ{block: block, forked: s.forked()}, nil
}

func unreadable(err error) error { return fmt.Errorf("%w: %w", ErrUnreadable, err) }

func unreadableUnlessGone(err error) error {
	if errors.Is(err, ErrGone) {
		return err
	}
	return unreadable(err)
}

// alive returns nil if the process has not exited, so that what was read under
// its pid before is of the living process.
func (h *pidfd) alive() error {
	exited, err := h.exited()
	if err != nil {
		return unreadable(err)
	}
	if exited {
		return ErrGone
	}
	return nil
}

// livingThread returns the path of the environment as another thread shows it,
// for a process whose first thread has ended while others go on.
func (h *pidfd) livingThread(path string) string {
	tasks := procPath(h.pid, "task")
	dir, err := openat(unix.AT_FDCWD, tasks, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return path
	}
	defer unix.Close(dir)
	tids, err := numbersIn(dir, make([]byte, 4096), nil)
	if err != nil {
		return path
	}
	for _, tid := range tids {
		if tid != h.pid {
			return tasks + "/" + strconv.Itoa(tid) + "/environ"
		}
	}
	return path
}

// mayRead reports whether the environment of a process should be readable, so
// that a refusal may be a matter of the moment.
func mayRead(pid int) bool {
	if canTrace() {
		return true
	}
	uid, err := ownerOf(pid)
	return err == nil && uid == os.Geteuid()
}

// canTrace reports whether the calling process may look into every other one.
func canTrace() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) != nil {
		return false
	}
	return data[0].Effective&(1<<unix.CAP_SYS_PTRACE) != 0
}
