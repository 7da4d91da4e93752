package probes

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/windows"
)

// JobObject is a job of Windows: a set of processes that the system keeps
// together. A process that is created by one in the job is in the job from its
// first moment on, and none can leave it. When the job's last handle is closed,
// by Close or by the end of the process that has it, the system ends them all
// (JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE). Jobs can be nested.
//
// JobObject exists on Windows only. A nil one holds nobody.
type JobObject struct {
	mu sync.RWMutex
	h  windows.Handle // 0 once it is closed
}

// NewJobObject makes a job without a name, which nobody else can open and no
// child inherits. If breakaway is true, a process in the job may create one
// that is not, with CREATE_BREAKAWAY_FROM_JOB.
func NewJobObject(breakaway bool) (*JobObject, error) {
	h, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, os.NewSyscallError("CreateJobObject", err)
	}
	limits := new(windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION)
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	if breakaway {
		limits.BasicLimitInformation.LimitFlags |= windows.JOB_OBJECT_LIMIT_BREAKAWAY_OK
	}
	ok, _, err := procSetInformationJobObject.Call(uintptr(h), windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(limits)), unsafe.Sizeof(*limits))
	runtime.KeepAlive(limits)
	if ok == 0 {
		_ = windows.CloseHandle(h)
		return nil, os.NewSyscallError("SetInformationJobObject", err)
	}
	return &JobObject{h: h}, nil
}

// Assign puts the process into the job, for good. From then on SignalGroup and
// the stops count the job's processes as its group. Children that the process
// had before are not in the job: assign it before it can have any.
func (j *JobObject) Assign(p *Process) error {
	return p.use("assignment to a job", func(h handle) error {
		other, err := h.reopen(windows.PROCESS_SET_QUOTA | windows.PROCESS_TERMINATE)
		if err != nil {
			return err
		}
		defer release(other)
		if err := j.assign(other); err != nil {
			if errors.Is(h.alive(), ErrGone) {
				return ErrGone // the system says that access is denied
			}
			return err
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.job = j
		return nil
	})
}

// AssignSelf puts the calling process into the job, and so all that it creates
// from then on. A Close of the job would end the caller.
func (j *JobObject) AssignSelf() error { return j.assign(windows.CurrentProcess()) }

func (j *JobObject) assign(h windows.Handle) error {
	return j.use(func(job windows.Handle) error {
		if err := windows.AssignProcessToJobObject(job, h); err != nil {
			return fmt.Errorf("AssignProcessToJobObject: %w", typed(err))
		}
		return nil
	})
}

// Terminate ends all processes in the job. It returns before they are gone.
func (j *JobObject) Terminate() error {
	return j.use(func(job windows.Handle) error {
		if err := windows.TerminateJobObject(job, exitKilled); err != nil {
			return fmt.Errorf("TerminateJobObject: %w", typed(err))
		}
		return nil
	})
}

// PIDs returns the processes that are in the job now, and in jobs within it. By
// the time that a pid is opened it may be another process's.
func (j *JobObject) PIDs() (pids []int, err error) {
	err = j.use(func(job windows.Handle) error {
		// JOBOBJECT_BASIC_PROCESS_ID_LIST: how many there are and how many
		// are listed, 32 bits each, and then the list.
		const head = 8 / int(unsafe.Sizeof(uintptr(0)))
		for room := 64; ; room *= 2 {
			buf := make([]uintptr, head+room)
			ok, _, err := procQueryInformationJobObject.Call(uintptr(job), windows.JobObjectBasicProcessIdList,
				uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf))*unsafe.Sizeof(buf[0]), 0)
			counts := (*[2]uint32)(unsafe.Pointer(&buf[0]))
			if ok == 0 && !errors.Is(err, windows.ERROR_MORE_DATA) {
				return os.NewSyscallError("QueryInformationJobObject", err)
			}
			if ok == 0 || counts[1] < counts[0] {
				continue
			}
			for _, pid := range buf[head:][:counts[1]] {
				pids = append(pids, int(pid))
			}
			return nil
		}
	})
	return pids, err
}

// holds reports whether a process is in the job.
func (j *JobObject) holds(h windows.Handle) bool {
	var in int32
	err := j.use(func(job windows.Handle) error {
		ok, _, err := procIsProcessInJob.Call(uintptr(h), uintptr(job), uintptr(unsafe.Pointer(&in)))
		if ok == 0 {
			return os.NewSyscallError("IsProcessInJob", err)
		}
		return nil
	})
	return err == nil && in != 0
}

// Close lets go of the job, which ends all processes in it. A second call does
// nothing.
func (j *JobObject) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.h == 0 {
		return nil
	}
	err := windows.CloseHandle(j.h)
	j.h = 0
	return err
}

// use runs f while the handle is kept from being closed; it does nothing for a
// nil job.
func (j *JobObject) use(f func(windows.Handle) error) error {
	if j == nil {
		return nil
	}
	j.mu.RLock()
	defer j.mu.RUnlock()
	if j.h == 0 {
		return fmt.Errorf("job: %w", os.ErrClosed)
	}
	return f(j.h)
}
