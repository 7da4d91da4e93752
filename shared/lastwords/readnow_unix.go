//go:build unix

package lastwords

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// readNow reads what is in a pipe that has a deadline, whether that is over or not.
func readNow(pipe *os.File, p []byte) (n int, err error) {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return 0, err
	}
	read := func(fd uintptr) {
		for {
			// What has a deadline does not block.
			if n, err = unix.Read(int(fd), p); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}
	if closed := raw.Control(read); closed != nil {
		return 0, closed
	}
	switch {
	case errors.Is(err, unix.EAGAIN):
		return 0, os.ErrDeadlineExceeded
	case err != nil:
		return 0, err
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return n, nil
}
