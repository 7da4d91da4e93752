//go:build linux || darwin || freebsd || windows

package probes

import (
	"errors"

	"github.com/plughost/plughost/shared/marker"
)

// errOther says that a process is marked, but is not what is looked for.
var errOther = errors.New("not what is looked for")

// holdSought holds a process that a scan came upon and says what it is, if the
// marker that is read through the hold is one that f selects. describe adds
// what the system tells beside, last of all that it has not exited.
func holdSought(f Filter, pid int, describe func(*Process, *Found) error) (_ *Process, _ Found, err error) {
	reach(stepGlanced)
	p, err := hold(pid)
	if err != nil {
		return nil, Found{}, err
	}
	reach(stepHeld)
	defer func() {
		if err != nil {
			_ = p.Close()
		}
	}()
	found := Found{PID: pid, State: Alive}
	if found.Identity, err = p.Marker(); err != nil {
		return nil, Found{}, err
	}
	if !f.selects(found.Identity) {
		return nil, Found{}, errOther
	}
	if found.Birth, err = p.Birth(); err != nil {
		return nil, Found{}, err
	}
	if err = describe(p, &found); err != nil {
		return nil, Found{}, err
	}
	reach(stepExamined)
	return p, found, nil
}

// notSought reports whether an error of holdSought only says that the process
// is not what is looked for, and not that it could not be told.
func notSought(err error) bool {
	return errors.Is(err, ErrGone) ||
		errors.Is(err, marker.ErrUnmarked) || errors.Is(err, marker.ErrMalformed) ||
		errors.Is(err, errOther) ||
		errors.Is(err, ErrUnreadable) && !exhausted(err)
}
