//go:build darwin || freebsd

package probes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ask sends the polite signal to the process or to its group, and then lets it
// run if it was stopped, as it could not end otherwise.
func (h *watched) ask(group bool) error {
	if err := h.signalOne(syscall.SIGTERM, group); err != nil {
		return err
	}
	if err := h.signalOne(syscall.SIGCONT, group); err != nil && !errors.Is(err, ErrGone) {
		return err
	}
	return nil
}

// kill sends the forced signal to the process or to its group.
func (h *watched) kill(group bool) error { return h.signalOne(syscall.SIGKILL, group) }

func (h *watched) signalOne(sig syscall.Signal, group bool) error {
	if group {
		return h.signalGroup(sig)
	}
	return h.signal(sig)
}

// signalGroup is kill(2) of the negative pid, while the leader is held: its pid
// can't be another group's number until it is reaped, and afterwards not before
// the group is empty, since the kernel gives no pid that is the number of a
// group. Between the look at the leader and the kill there is the same moment
// as in checkAndKill.
func (h *watched) signalGroup(sig syscall.Signal) error {
	if unix.Getpgrp() == h.pid {
		return ErrSelf
	}
	pgid, err := h.group()
	switch {
	case err != nil:
		return err
	case pgid != h.pid:
		return ErrNotLeader
	}
	if err := h.held(); err != nil {
		return err
	}
	err = unix.Kill(-h.pid, sig)
	if errors.Is(err, unix.EPERM) {
		// XNU says so, too, if all that is left are zombies.
		if live, listErr := h.liveMembers(); listErr == nil && len(live) == 0 {
			if exited, exitErr := h.exited(); exitErr == nil && exited {
				return ErrGone
			}
		}
	}
	if err != nil {
		return typed(err)
	}
	return nil
}

// liveMembers lists the processes of the group of the process's number, but for
// itself and zombies.
func (h *watched) liveMembers() ([]process, error) {
	all, err := readGroup(h.pid)
	if err != nil {
		return nil, err
	}
	live := all[:0]
	for _, p := range all {
		if p.pid != h.pid && p.pgid == h.pid && !p.zombie {
			live = append(live, p)
		}
	}
	return live, nil
}

// groupMembers holds the live members of the group that the process leads, but
// for itself and the caller. The callee owns them. Once the leader was reaped
// the group can't be proven to be its own any more, and has none.
func (h *watched) groupMembers(ctx context.Context) (members []*Process, err error) {
	pgid, err := h.group()
	switch {
	case errors.Is(err, ErrGone), err == nil && pgid != h.pid:
		return nil, nil
	case err != nil:
		return nil, err
	}
	live, err := h.liveMembers()
	if err != nil {
		return nil, fmt.Errorf("members of group %d: %w", h.pid, err)
	}
	var errs []error
	for _, m := range live {
		if m.pid == os.Getpid() {
			continue
		}
		if ctx.Err() != nil {
			errs = append(errs, context.Cause(ctx))
			break
		}
		p, err := hold(m.pid)
		if err != nil {
			if !errors.Is(err, ErrGone) {
				errs = append(errs, err)
			}
			continue
		}
		if pgid, err := p.handle.group(); err != nil || pgid != h.pid || p.Exited() {
			_ = p.Close()
			continue
		}
		members = append(members, p)
	}
	if err := h.held(); err != nil {
		for _, p := range members {
			_ = p.Close()
		}
		if errors.Is(err, ErrGone) {
			return nil, errors.Join(errs...)
		}
		return nil, errors.Join(append(errs, err)...)
	}
	return members, errors.Join(errs...)
}

// lastBorn is not known: there is no number that tells of every new process.
func lastBorn() (int, bool) { return 0, false }
