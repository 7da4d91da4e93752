package probes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ask sends the polite signal to the process or to its group, and then lets it
// run if it was stopped, as it could not end otherwise.
func (h *pidfd) ask(group bool) error {
	if err := h.signalOne(syscall.SIGTERM, group); err != nil {
		return err
	}
	if err := h.signalOne(syscall.SIGCONT, group); err != nil && !errors.Is(err, ErrGone) {
		return err
	}
	return nil
}

// kill sends the forced signal to the process or to its group.
func (h *pidfd) kill(group bool) error { return h.signalOne(syscall.SIGKILL, group) }

func (h *pidfd) signalOne(sig syscall.Signal, group bool) error {
	if group {
		return h.signalGroup(sig)
	}
	return h.signal(sig)
}

// groupMembers holds the live members of the group that the process leads or
// led, but for itself and the caller. The callee owns them.
//
// That a process's group has the right number is not enough: the group may have
// ended and another one have got the number. As long as the pidfd stands for a
// group with a member, though, the number is that group's.
func (h *pidfd) groupMembers(ctx context.Context) (members []*Process, err error) {
	if empty, err := h.groupEmpty(); empty || err != nil {
		return nil, err
	}
	proc, err := listProc()
	if err != nil {
		return nil, err
	}
	defer unix.Close(proc)
	pids, err := numbersIn(proc, make([]byte, 32<<10), nil)
	if err != nil {
		return nil, fmt.Errorf("read /proc: %w", err)
	}
	var errs []error
	self := os.Getpid()
	for _, pid := range pids {
		if pid == self || pid == h.pid {
			continue
		}
		if pgid, err := unix.Getpgid(pid); err != nil || pgid != h.pid {
			continue
		}
		if ctx.Err() != nil {
			errs = append(errs, context.Cause(ctx))
			break
		}
		reach(stepMemberSeen)
		p, err := hold(pid)
		if err != nil {
			if !errors.Is(err, ErrGone) {
				errs = append(errs, err)
			}
			continue
		}
		reach(stepMemberHeld)
		if pgid, err := p.handle.group(); err != nil || pgid != h.pid || p.Exited() {
			_ = p.Close()
			continue
		}
		members = append(members, p)
	}
	if empty, err := h.groupEmpty(); empty || err != nil {
		for _, p := range members {
			_ = p.Close()
		}
		return nil, errors.Join(append(errs, err)...)
	}
	return members, errors.Join(errs...)
}

// groupEmpty reports whether the group that the process leads or led has no
// member, a zombie among them, or can't be proven to be that group any more.
func (h *pidfd) groupEmpty() (bool, error) {
	err := h.send(0, unix.PIDFD_SIGNAL_PROCESS_GROUP)
	if errors.Is(err, unix.EINVAL) {
		err = h.held()
	}
	switch {
	case err == nil, errors.Is(err, unix.EPERM):
		return false, nil
	case errors.Is(err, unix.ESRCH):
		return true, nil
	}
	return false, typed(err)
}

// lastBorn returns the number that the newest process or thread of the pid
// namespace was given. As long as it stays, none was born.
func lastBorn() (int, bool) {
	proc, err := procDir()
	if err != nil {
		return 0, false
	}
	var buf [128]byte
	text, err := readRecord(proc, "loadavg", buf[:])
	if err != nil {
		return 0, false
	}
	return parseLastBorn(string(text))
}

// parseLastBorn reads the last field of /proc/loadavg.
func parseLastBorn(text string) (int, bool) {
	fields := strings.Fields(text)
	if len(fields) < 5 {
		return 0, false
	}
	pid, err := strconv.Atoi(fields[4])
	return pid, err == nil && pid >= 0
}
