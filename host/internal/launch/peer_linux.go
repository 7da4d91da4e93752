package launch

import (
	"net"

	"golang.org/x/sys/unix"
)

// listenerPID is the process that called listen(2) on the socket at the other
// end: SO_PEERCRED of unix(7).
func listenerPID(conn *net.UnixConn) (pid int, err error) {
	err = control(conn, func(fd int) error {
		cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			pid = int(cred.Pid)
		}
		return err
	})
	return pid, err
}
