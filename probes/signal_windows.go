package probes

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"golang.org/x/sys/windows"
)

// exitKilled is the exit code of what is ended by force, the same that
// os.Process.Kill gives.
const exitKilled = 1

// Windows has no signals. Two have a counterpart: SIGKILL is TerminateProcess,
// and SIGTERM the event that a Ctrl-Break makes, for programs on the same
// console. Signal 0 asks whether SIGKILL would be possible.

func (h *object) signal(sig syscall.Signal) error {
	if err := h.alive(); err != nil {
		return err
	}
	switch sig {
	case 0:
		return h.mayTerminate()
	case syscall.SIGKILL:
		return h.terminate()
	case syscall.SIGTERM:
		return h.askConsole(false)
	}
	return fmt.Errorf("signal %d: %w", int(sig), errors.ErrUnsupported)
}

// signalGroup reaches the process's family: itself, its descendants, and the
// job that it was assigned to. SIGTERM reaches the console process group.
func (h *object) signalGroup(sig syscall.Signal) error {
	caller, err := h.gather()
	if err != nil {
		return err
	}
	if caller {
		return ErrSelf
	}
	alive := h.aliveOnes()
	if len(alive) == 0 {
		return ErrGone
	}
	switch sig {
	case 0:
		return alive[0].mayTerminate()
	case syscall.SIGKILL:
		return h.terminateFamily()
	case syscall.SIGTERM:
		return h.askConsole(false)
	}
	return fmt.Errorf("signal %d: %w", int(sig), errors.ErrUnsupported)
}

// ask sends what politeness there is. A process that is recorded as the leader
// of a group was created with CREATE_NEW_PROCESS_GROUP.
func (h *object) ask(group bool) error { return h.askConsole(group) }

// kill ends the process, or its family.
func (h *object) kill(group bool) error {
	if group {
		return h.signalGroup(syscall.SIGKILL)
	}
	return h.signal(syscall.SIGKILL)
}

func (h *object) mayTerminate() error {
	other, err := h.reopen(windows.PROCESS_TERMINATE)
	if err != nil {
		return err
	}
	return windows.CloseHandle(other)
}

// terminate ends the process. Who has the right is refused nonetheless when
// the process is ending already, which takes a moment; that is as good.
func (h *object) terminate() error {
	other, err := h.reopen(windows.PROCESS_TERMINATE)
	if err != nil {
		return err
	}
	defer release(other)
	err = windows.TerminateProcess(other, exitKilled)
	if err != nil && !errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		return fmt.Errorf("TerminateProcess: %w", err)
	}
	return nil
}

// askConsole sends CTRL_BREAK_EVENT to the console process group that the
// process leads. CTRL_C_EVENT would not do: it can't be sent to a group, and a
// new group ignores it.
//
// GenerateConsoleCtrlEvent reaches only processes on the caller's console, and
// given a number that is no group's it reaches others than it should. So the
// process has to be on that console, and to be known as a leader: from its own
// parameters, or from the record of its launch if these don't say.
func (h *object) askConsole(recorded bool) error {
	if err := h.alive(); err != nil {
		return err
	}
	if !slices.Contains(consolePIDs(), uint32(h.pid)) {
		return fmt.Errorf("it is not on the console of this process: %w", errors.ErrUnsupported)
	}
	group, err := h.group()
	switch {
	case err != nil:
		return err
	case group == h.pid:
	case group == 0 && recorded:
	default:
		return fmt.Errorf("%w of the console: %w", ErrNotLeader, errors.ErrUnsupported)
	}
	if own, err := consoleGroup(windows.CurrentProcess()); err != nil || own == h.pid {
		return ErrSelf
	}
	if err := windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(h.pid)); err != nil {
		return fmt.Errorf("GenerateConsoleCtrlEvent: %w", typed(err))
	}
	return nil
}

// group returns the number of the console process group, which is the pid of
// the process that was created to lead it; 0 if the process does not say. The
// group of one that is on no console, or on another than the caller's, can't
// be reached.
func (h *object) group() (int, error) {
	memory, err := h.reopen(readRights)
	if err != nil {
		return 0, err
	}
	defer release(memory)
	group, err := consoleGroup(memory)
	if gone := h.alive(); gone != nil {
		return 0, gone
	}
	return group, err
}

func consoleGroup(memory windows.Handle) (int, error) {
	if err := sameWidth(memory); err != nil {
		return 0, err
	}
	p, err := readParameters(memory)
	return int(p.group), err
}
