package probes

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// maxRounds bounds how often a family is looked for anew while it is ended.
const maxRounds = 16

// gather looks for the process's descendants that are alive and holds them,
// until the process is closed. It reports whether the caller is one of them.
//
// A process is a child of another one if it names that one's pid as its
// creator's and was created after it: since the other one is held, nobody else
// has had that pid since. Descendants that exit stay held, so that their
// children are still found by them; those of one that exited before it was seen
// are not, unless they carry the marker.
func (h *object) gather() (caller bool, err error) {
	all, err := snapshot()
	if err != nil {
		return false, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.h == 0 {
		return false, os.ErrClosed
	}
	self := os.Getpid()
	for grown := true; grown; {
		grown = false
		for _, e := range all {
			parent := h.kin[e.parent]
			if e.parent == h.pid {
				parent = h
			}
			if parent == nil || e.pid == h.pid || h.kin[e.pid] != nil {
				continue
			}
			child, err := openHandle(e.pid)
			if err != nil {
				continue // gone, or withheld: nothing would prove it
			}
			if !child.childOf(parent) {
				_ = child.close()
				continue
			}
			if e.pid == self {
				_ = child.close()
				return true, nil
			}
			if h.kin == nil {
				h.kin = make(map[int]*object)
			}
			h.kin[e.pid] = child
			grown = true
		}
	}
	return h.job.holdsCaller(), nil
}

func (h *object) childOf(parent *object) bool {
	pid, err := h.creator()
	return err == nil && pid == parent.pid && h.after(parent)
}

// aliveOnes returns those of the family that are seen to be alive. They stay
// the family's.
func (h *object) aliveOnes() []*object {
	h.mu.Lock()
	defer h.mu.Unlock()
	var alive []*object
	if h.alive() == nil {
		alive = append(alive, h)
	}
	for _, relative := range h.kin {
		if relative.alive() == nil {
			alive = append(alive, relative)
		}
	}
	return alive
}

// terminateFamily ends the process first, so that it has no more children, and
// then whom it left, until no new ones are found.
func (h *object) terminateFamily() error {
	h.mu.Lock()
	job := h.job
	h.mu.Unlock()
	var errs []error
	if err := job.Terminate(); err != nil && !errors.Is(err, os.ErrClosed) {
		errs = append(errs, err)
	}
	ended := make(map[*object]bool)
	for range maxRounds {
		again := false
		for _, p := range h.aliveOnes() {
			if ended[p] {
				continue
			}
			ended[p], again = true, true
			if err := p.terminate(); err != nil && !errors.Is(err, ErrGone) {
				errs = append(errs, err)
			}
		}
		if !again {
			break
		}
		caller, err := h.gather()
		if err != nil || caller {
			errs = append(errs, err)
			break
		}
	}
	return errors.Join(errs...)
}

// groupMembers holds the live members of the family, but for the process itself
// and the caller. The callee owns them.
func (h *object) groupMembers(ctx context.Context) (members []*Process, err error) {
	if _, err := h.gather(); err != nil {
		return nil, err
	}
	var errs []error
	taken := map[int]bool{h.pid: true, os.Getpid(): true}
	take := func(pid int, proven func(handle) bool) {
		if taken[pid] {
			return
		}
		p, err := hold(pid)
		if err != nil {
			if !errors.Is(err, ErrGone) {
				errs = append(errs, err)
			}
			return
		}
		if p.Exited() || !proven(p.handle) {
			_ = p.Close()
			return
		}
		taken[pid] = true
		members = append(members, p)
	}
	for _, relative := range h.aliveOnes() {
		// Held already, so that the pid is its own.
		take(relative.pid, func(handle) bool { return true })
	}
	h.mu.Lock()
	job := h.job
	h.mu.Unlock()
	pids, err := job.PIDs()
	if err != nil && !errors.Is(err, os.ErrClosed) {
		errs = append(errs, err)
	}
	for _, pid := range pids {
		take(pid, func(p handle) bool { return job.holds(p.h) })
	}
	if ctx.Err() != nil {
		errs = append(errs, context.Cause(ctx))
	}
	return members, errors.Join(errs...)
}

// holdsCaller reports whether the calling process is in the job.
func (j *JobObject) holdsCaller() bool { return j.holds(windows.CurrentProcess()) }
