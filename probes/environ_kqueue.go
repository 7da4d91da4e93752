//go:build darwin || freebsd

package probes

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// maxEnviron bounds what is read of one environment. Both systems let arguments
// and environment have 1 MiB together, and FreeBSD can be told otherwise.
const maxEnviron = 8 << 20

// environ takes one look at the process's environment. Failures that may be
// due to a moment of exec are errAgain.
//
// It is read twice, and both readings have to be the same: one that an exec cut
// short, or mixed from two programs, is not believed.
func (h *watched) environ() (environ, error) {
	// The flags come first: a process that has executed something by now does
	// not show its parent's block any more.
	p, err := h.read()
	if err != nil {
		return environ{}, unreadableUnlessGone(err)
	}
	if p.kernel {
		return environ{}, nil
	}
	block, err := readEnviron(h.pid)
	if err == nil {
		var again []byte
		if again, err = readEnviron(h.pid); err == nil && !bytes.Equal(block, again) {
			err = errAgain{errors.New("it changed while it was read")}
		}
	}
	// Nothing of this can be another process's: its own has not exited.
	exited, exitErr := h.exited()
	switch {
	case exitErr != nil:
		return environ{}, unreadable(exitErr)
	case exited:
		return environ{}, ErrGone
	}
	if err != nil {
		return environ{}, h.whyUnreadable(p, err)
	}
	return environ{block: block, forked: p.forked}, nil
}

// whyUnreadable says what a failure to read the environment of a live process
// means. Both systems give the same numbers for a moment of exec and for a
// refusal, so the owner decides.
func (h *watched) whyUnreadable(p process, err error) error {
	var again errAgain
	switch {
	case errors.Is(err, errWithheld):
		return fmt.Errorf("%w: %w", unreadable(ErrPermission), err)
	case errors.As(err, &again):
		return errAgain{unreadable(again.error)}
	case os.Geteuid() != 0 && os.Geteuid() != p.uid:
		return fmt.Errorf("%w: %w", unreadable(ErrPermission), err)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EIO), errors.Is(err, unix.EFAULT), errors.Is(err, unix.EBUSY),
		errors.Is(err, unix.ESRCH), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ENOEXEC):
		// Not typed: the process itself is there.
		return errAgain{unreadable(err)}
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return unreadable(typed(err))
	}
	return unreadable(err)
}

// errWithheld says that the system keeps the environment of a process back for
// good.
var errWithheld = errors.New("the system withholds it")

func unreadable(err error) error { return fmt.Errorf("%w: %w", ErrUnreadable, err) }

func unreadableUnlessGone(err error) error {
	if errors.Is(err, ErrGone) {
		return err
	}
	return unreadable(err)
}

func ownEnviron() ([]byte, error) { return readEnviron(os.Getpid()) }
