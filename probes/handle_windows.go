package probes

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"golang.org/x/sys/windows"
)

// maxPID is the greatest pid that is not refused at sight. Windows gives none
// near it.
const maxPID = math.MaxInt32

// holdRights are the least by which a process can be held, recognized and
// waited for. Windows gives them for most processes of other users, too. What
// else a question needs is asked for when the question comes, see reopen.
const holdRights = windows.PROCESS_QUERY_LIMITED_INFORMATION | windows.SYNCHRONIZE

// handle is a handle of a process object and the pid of the process.
//
// The pid is given to nobody else as long as the handle is open, even after
// the process has exited: the number is that of the object, which lives as
// long as anybody has a handle of it. So whatever is asked by the pid while
// the handle is open is asked of this process.
type handle = *object

type object struct {
	pid int
	h   windows.Handle // 0 once it is closed

	mu  sync.Mutex
	kin map[int]*object // its descendants, as far as they were seen alive
	job *JobObject      // that it was assigned to by this program; or nil
}

// openHandle opens a process. It succeeds for one that has exited as well if
// somebody else, such as its creator, still has a handle of it.
func openHandle(pid int) (handle, error) {
	h, err := windows.OpenProcess(holdRights, false, uint32(pid))
	if errors.Is(err, windows.ERROR_INVALID_PARAMETER) {
		return nil, fmt.Errorf("OpenProcess: %w: %w", ErrGone, err)
	}
	if err != nil {
		return nil, fmt.Errorf("OpenProcess: %w", typed(err))
	}
	// OpenProcess takes the three numbers after a pid for the pid itself.
	if got, err := windows.GetProcessId(h); err != nil || got != uint32(pid) {
		_ = windows.CloseHandle(h)
		return nil, fmt.Errorf("no process has that pid: %w", ErrGone)
	}
	return &object{pid: pid, h: h}, nil
}

// reopen opens the process once more, with other rights. The callee closes what
// it gets.
func (h *object) reopen(rights uint32) (windows.Handle, error) {
	other, err := windows.OpenProcess(rights, false, uint32(h.pid))
	if err == nil {
		return other, nil
	}
	if exited, exitErr := h.exited(); exitErr == nil && exited {
		return 0, ErrGone
	}
	return 0, fmt.Errorf("OpenProcess: %w", typed(err))
}

// typed puts the package's own error before that of the system.
func typed(err error) error {
	switch {
	case errors.Is(err, windows.ERROR_ACCESS_DENIED), errors.Is(err, windows.STATUS_ACCESS_DENIED):
		return fmt.Errorf("%w: %w", ErrPermission, err)
	case errors.Is(err, windows.STATUS_NOT_IMPLEMENTED), errors.Is(err, windows.STATUS_INVALID_INFO_CLASS):
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return err
}

// birth takes the time at which the process was created, which is kept with
// the object: it can be had after the exit, too.
func (h *object) birth() (Birth, error) {
	start, err := h.start()
	if err != nil {
		return Birth{}, err
	}
	return Birth{BootID: bootID, PID: h.pid, Start: start}, nil
}

// start returns the time of creation, in steps of 100 ns since the year 1601.
func (h *object) start() (uint64, error) {
	var created, exited, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(h.h, &created, &exited, &kernel, &user); err != nil {
		return 0, fmt.Errorf("GetProcessTimes: %w", typed(err))
	}
	return uint64(created.HighDateTime)<<32 | uint64(created.LowDateTime), nil
}

// bootID stands in every birth record. Windows documents nothing that tells
// one boot from the next (the time of the boot that it shows moves when the
// clock is set), and needs nothing: Start is no time since the boot but one of
// the calendar, so that a later process with the same pid has a greater one.
const bootID = "windows"

// BootID returns the same for every boot: a start time on Windows is absolute,
// and so pid and start tell a process from those of other boots.
func BootID() (string, error) { return bootID, nil }

// exited asks whether the object is signalled. The exit code would not do: that
// of a running process is 259, which a process can exit with.
func (h *object) exited() (bool, error) {
	event, err := windows.WaitForSingleObject(h.h, 0)
	switch {
	case err != nil:
		return false, fmt.Errorf("WaitForSingleObject: %w", typed(err))
	case event == windows.WAIT_OBJECT_0:
		return true, nil
	case event == uint32(windows.WAIT_TIMEOUT):
		return false, nil
	}
	return false, fmt.Errorf("WaitForSingleObject: unexpected event %#x", event)
}

// alive returns nil if the process has not exited.
func (h *object) alive() error {
	exited, err := h.exited()
	if err != nil {
		return err
	}
	if exited {
		return ErrGone
	}
	return nil
}

// state knows no zombies: nobody has to reap on Windows.
func (h *object) state() (State, error) {
	exited, err := h.exited()
	switch {
	case err != nil:
		return StateUnknown, err
	case exited:
		return Gone, nil
	}
	return Alive, nil
}

func (h *object) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, relative := range h.kin {
		_ = relative.close()
	}
	h.kin = nil
	if h.h == 0 {
		return nil
	}
	err := windows.CloseHandle(h.h)
	h.h = 0
	return err
}
