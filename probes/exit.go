package probes

import (
	"strconv"
	"syscall"
)

// ExitStatus is how a process ended.
type ExitStatus struct {
	// Code is what the process gave to exit, or -1 if a signal ended it.
	Code int `json:"code"`
	// Signal ended the process; it is 0 if that exited by itself.
	Signal syscall.Signal `json:"signal,omitempty"`
	// CoreDumped says that an image of the process's memory was taken.
	CoreDumped bool `json:"core_dumped,omitempty"`
}

// Success reports whether the process exited by itself, with the code 0.
func (s ExitStatus) Success() bool { return s.Code == 0 && s.Signal == 0 }

// String describes the status as os.ProcessState does.
func (s ExitStatus) String() string {
	if s.Signal == 0 {
		return "exit status " + strconv.Itoa(s.Code)
	}
	text := "signal: " + s.Signal.String()
	if s.CoreDumped {
		text += " (core dumped)"
	}
	return text
}

// ExitStatus returns how the process ended, which need not be a child of the
// caller. It reaps nobody.
//
// The error wraps ErrNotExited as long as the process lives. It wraps
// ErrNotReaped if it is another's child and a zombie: after Wait this may last
// a moment, until its parent comes for it. It wraps errors.ErrUnsupported where
// the system does not tell.
//
// On Linux 6.15 and later the kernel keeps the status of a process that was
// reaped for those who held a pidfd (PIDFD_GET_INFO, PIDFD_INFO_EXIT). On older
// kernels only the status of one's own children is told, as long as they are
// zombies. On other systems it is unsupported.
func (p *Process) ExitStatus() (ExitStatus, error) {
	var s ExitStatus
	err := p.use("exit status", func(h handle) (err error) {
		s, err = exitStatus(h)
		return err
	})
	return s, err
}
