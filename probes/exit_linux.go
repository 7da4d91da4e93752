package probes

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// exitStatus says how the process ended: of a zombie waitid(2) tells it to the
// parent, of one that was reaped the kernel tells it to whoever holds a pidfd.
func exitStatus(h *pidfd) (ExitStatus, error) {
	state, err := h.state()
	switch {
	case err != nil:
		return ExitStatus{}, err
	case state == Alive:
		return ExitStatus{}, ErrNotExited
	case state == Zombie:
		status, err := h.zombieStatus()
		if !errors.Is(err, ErrNotReaped) || h.held() == nil {
			return status, err
		}
		// It was reaped meanwhile.
	}
	return h.reapedStatus()
}

// reapedStatus is the status that the kernel has kept of a reaped process.
//
// The status is noted before the pid is given free, so it is there once held
// says that the process is gone. Kernels before 6.13 don't know the call: ENOTTY,
// or EINVAL from those that have other calls for pidfds. Those before 6.15 know
// it, but not for a reaped process: ESRCH. The answer's mask says what the
// kernel has filled in.
func (h *pidfd) reapedStatus() (ExitStatus, error) {
	info, err := retry(func() (unix.PidfdInfo, error) {
		info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
		err := unix.IoctlPidfdInfo(h.fd, &info)
		return info, err
	})
	switch {
	case err == nil && info.Mask&unix.PIDFD_INFO_EXIT != 0:
		return waitStatus(unix.WaitStatus(info.Exit_code)), nil
	case err == nil:
		return ExitStatus{}, fmt.Errorf("the kernel does not tell: %w", errors.ErrUnsupported)
	case errors.Is(err, unix.ENOTTY), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ESRCH), errors.Is(err, unix.ENOSYS):
		return ExitStatus{}, fmt.Errorf("%w: %w", errors.ErrUnsupported, os.NewSyscallError("ioctl", err))
	}
	return ExitStatus{}, os.NewSyscallError("ioctl", err)
}

// waitStatus reads a status as wait(2) gives it.
func waitStatus(w unix.WaitStatus) ExitStatus {
	if w.Signaled() {
		return ExitStatus{Code: -1, Signal: w.Signal(), CoreDumped: w.CoreDump()}
	}
	return ExitStatus{Code: w.ExitStatus()}
}

// Codes of a siginfo for SIGCHLD.
const (
	childExited = 1
	childDumped = 3
)

// zombieStatus is the status of a zombie, if that is a child of the caller. It
// stays a zombie.
func (h *pidfd) zombieStatus() (ExitStatus, error) {
	info, err := retry(func() (unix.Siginfo, error) {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PIDFD, h.fd, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		return info, err
	})
	switch {
	case errors.Is(err, unix.ECHILD), errors.Is(err, unix.EAGAIN), err == nil && info.Signo == 0:
		return ExitStatus{}, ErrNotReaped
	case errors.Is(err, unix.EINVAL): // before Linux 5.4
		return ExitStatus{}, fmt.Errorf("%w: %w", errors.ErrUnsupported, os.NewSyscallError("waitid", err))
	case err != nil:
		return ExitStatus{}, os.NewSyscallError("waitid", err)
	}
	// Three integers are followed, aligned to a pointer, by pid, uid and status.
	const statusAt = (12+unsafe.Sizeof(uintptr(0))-1)/unsafe.Sizeof(uintptr(0))*unsafe.Sizeof(uintptr(0)) + 8
	raw := (*[unsafe.Sizeof(info)]byte)(unsafe.Pointer(&info))
	status := int(int32(binary.NativeEndian.Uint32(raw[statusAt:])))
	if info.Code == childExited {
		return ExitStatus{Code: status}, nil
	}
	return ExitStatus{Code: -1, Signal: syscall.Signal(status), CoreDumped: info.Code == childDumped}, nil
}
