package launch

import (
	"net"

	"golang.org/x/sys/unix"
)

// listenerPID is the process that listens at the other end: LOCAL_PEERPID of
// unix(4).
func listenerPID(conn *net.UnixConn) (pid int, err error) {
	err = control(conn, func(fd int) (err error) {
		pid, err = unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
		return err
	})
	return pid, err
}
