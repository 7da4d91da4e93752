//go:build !linux && !windows && !darwin && !freebsd

package probes

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
