//go:build unix

package shared

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// watchLifeline returns a channel that is closed when the host is gone: when
// the last write end of the pipe at descriptor fd was closed, which the kernel
// does for a process that dies in whatever way.
func watchLifeline(fd int) (<-chan struct{}, error) {
	// The plugin's own children must not inherit it.
	syscall.CloseOnExec(fd)
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("cannot watch the lifeline: %s=%d is no open file descriptor: %w", EnvLifeline, fd, err)
	}
	pipe := os.NewFile(uintptr(fd), "lifeline")
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer pipe.Close()
		// Nothing is ever written: the copy returns at the end of file.
		_, _ = io.Copy(io.Discard, pipe)
	}()
	return gone, nil
}
