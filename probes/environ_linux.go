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
	forked := false
	if !h.executed.Load() {
		// The flags come first: a process that has executed something by now does
		// not show its parent's block any more.
		s, err := h.stat()
		if err != nil {
			return environ{}, unreadableUnlessGone(err)
		}
		if s.kernel() {
			return environ{}, nil
		}
		forked = s.forked()
	}
	env := environ{forked: forked, lent: blocks.Get().(*[]byte)}
	err := h.readBlock(&env)
	if err != nil {
		env.release()
		return environ{}, err
	}
	return env, nil
}

// readBlock reads the block into the buffer that was lent for it.
func (h *pidfd) readBlock(env *environ) error {
	proc, err := procDir()
	if err != nil {
		return unreadable(err)
	}
	var path [pathSize]byte
	block, bigger, readErr := readEnviron(proc, string(appendPath(path[:0], h.pid, "environ")), *env.lent)
	*env.lent = bigger
	none := false
	if readErr != nil || len(block) == 0 {
		s, err := h.stat()
		if err != nil {
			return unreadableUnlessGone(err)
		}
		// Either the process has no environment or is about to get it.
		none = s.noEnviron()
		if s.dead() && s.threads > 1 {
			block, bigger, readErr = readEnviron(proc, h.livingThread(proc), *env.lent)
			*env.lent = bigger
		}
	}
	if err := h.alive(); err != nil {
		return err
	}
	switch {
	case readErr == nil && len(block) == 0 && !none:
		return errAgain{fmt.Errorf("%w: it is empty", ErrUnreadable)}
	case readErr == nil && len(block) > 0 && block[len(block)-1] != 0:
		return errAgain{fmt.Errorf("%w: it was overwritten", ErrUnreadable)}
	case errors.Is(readErr, unix.EACCES), errors.Is(readErr, unix.EPERM):
		err := unreadable(typed(readErr))
		if mayRead(h.pid) {
			return errAgain{err}
		}
		return err
	case errors.Is(readErr, unix.ESRCH), errors.Is(readErr, unix.ENOENT), errors.Is(readErr, errCut):
		// Not typed: the process itself is there.
		return errAgain{unreadable(readErr)}
	case readErr != nil:
		return unreadable(readErr)
	}
	env.block = block
	return nil
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
func (h *pidfd) livingThread(proc int) string {
	path := string(appendPath(nil, h.pid, "environ"))
	tasks := string(appendPath(nil, h.pid, "task"))
	dir, err := openat(proc, tasks, unix.O_RDONLY|unix.O_DIRECTORY)
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
