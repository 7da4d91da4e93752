package peer

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// PID is the process at the other end: LOCAL_PEERPID of unix(4).
func PID(conn *net.UnixConn) (pid int, err error) {
	err = control(conn, func(fd int) (err error) {
		pid, err = unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
		return err
	})
	return pid, err
}

// UID is not asked here: a socket's mode and directory guard it.
func UID(*net.UnixConn) (int, error) { return 0, errors.ErrUnsupported }
