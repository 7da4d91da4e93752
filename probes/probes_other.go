//go:build !linux && !windows && !darwin && !freebsd

package probes

// This file is the whole seam between the package and an operating system. To
// port the package, copy it to files of the system's suffix, take the system
// out of the constraint above, and fill it in, in this order:
//
//   - openHandle holds one process: whatever becomes of its pid, no method of
//     the handle may ever tell of, or signal, another one. Where the system has
//     no handle, look at what can change only if the process does (its start
//     time) before and after each question, and say in doc.go what is left open.
//   - birth must differ for any two processes that ever have the same pid, and
//     must stay the same over an exec. Its BootID keeps records of an earlier
//     boot from matching.
//   - environ is the environment as it was at the exec, or as it is now, as one
//     block for marker.Parse; together with whether the process may be in the
//     midst of an exec or a fork. A doubt is no answer: it is looked at again.
//   - state, parent, group, info, exited, wait. The wait is for an event of the
//     kernel, also of a process that is not a child, and ends with its context.
//   - signal, signalGroup, ask (the polite end) and kill (the forced one) reach
//     the held process alone, or the group that it leads. Errors are ErrGone,
//     ErrPermission and ErrNotLeader.
//   - groupMembers holds what Stop must wait for beside what is marked.
//   - scanProcesses visits each process that carries the marker, under a hold
//     and after its own marker was read through that. What could not be looked
//     at for lack of means is an error, not an absence.
//   - listeners names the holders of a port, or says that there is one that is
//     not to be seen.
//
// A method that has no answer wraps errors.ErrUnsupported, and the verdict is
// Unknown then. The tests of the neighbours whose names end in _unix_test.go
// hold for every system.

import (
	"context"
	"errors"
	"math"
	"runtime"
	"syscall"
)

// maxPID is the greatest pid that is not refused at sight.
const maxPID = math.MaxInt32

// handle would be the system's hold on a process. There is none here, and so
// everything answers that it is not supported.
type handle struct{}

func openHandle(int) (handle, error)            { return handle{}, errors.ErrUnsupported }
func (handle) birth() (Birth, error)            { return Birth{}, errors.ErrUnsupported }
func (handle) environ() (environ, error)        { return environ{}, errors.ErrUnsupported }
func (handle) state() (State, error)            { return StateUnknown, errors.ErrUnsupported }
func (handle) parent() (int, error)             { return 0, errors.ErrUnsupported }
func (handle) group() (int, error)              { return 0, errors.ErrUnsupported }
func (handle) info() (Info, error)              { return Info{}, errors.ErrUnsupported }
func (handle) exited() (bool, error)            { return false, errors.ErrUnsupported }
func (handle) signal(syscall.Signal) error      { return errors.ErrUnsupported }
func (handle) signalGroup(syscall.Signal) error { return errors.ErrUnsupported }
func (handle) close() error                     { return nil }

func (handle) ask(group bool) error  { return errors.ErrUnsupported }
func (handle) kill(group bool) error { return errors.ErrUnsupported }

func (handle) groupMembers(context.Context) ([]*Process, error) {
	return nil, errors.ErrUnsupported
}

func (handle) wait(context.Context) error { return errors.ErrUnsupported }

func ownEnviron() ([]byte, error) { return nil, errors.ErrUnsupported }

// BootID returns what tells this boot of the machine from every other one.
func BootID() (string, error) { return "", errors.ErrUnsupported }

// lastBorn returns a number that changes with each new process, if there is one.
func lastBorn() (int, bool) { return 0, false }

func scanProcesses(context.Context, Filter, func(*Process, Found)) error {
	return errors.ErrUnsupported
}

func listeners(context.Context, uint16, []int) ([]Listener, error) {
	return nil, errors.ErrUnsupported
}

func probeCapabilities() Capabilities {
	return Capabilities{
		OS:    runtime.GOOS,
		Notes: []string{"This operating system is not supported: every process is unknown, and none is ever signalled."},
	}
}
