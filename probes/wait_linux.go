package probes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// wait returns nil once the process has exited, or the cause of ctx's end.
//
// The pidfd is put into an epoll instance, which is itself a descriptor that
// Go's poller can wait for: the goroutine is parked, and no thread is blocked.
// The pidfd is not handed to the poller itself, as that wants O_NONBLOCK, a
// property of the open file that a launcher's own descriptor shares, and with
// which waitid(2) does not wait.
func (h *pidfd) wait(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return os.NewSyscallError("fcntl", err)
	}
	events := os.NewFile(uintptr(fd), "epoll")
	defer events.Close()
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(h.fd)}
	if err := unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, h.fd, &event); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	// Fails if the poller did not take the descriptor.
	if err := events.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = events.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()

	raw, err := events.SyscallConn()
	if err != nil {
		return err
	}
	var waitErr error
	err = raw.Read(func(uintptr) bool {
		var exited bool
		exited, waitErr = h.exited()
		return exited || waitErr != nil
	})
	switch {
	case waitErr != nil:
		return waitErr
	case errors.Is(err, os.ErrDeadlineExceeded):
		return context.Cause(ctx)
	default:
		return err
	}
}
