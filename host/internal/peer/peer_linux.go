package peer

import (
	"net"

	"golang.org/x/sys/unix"
)

// PID is the process that connected or, seen from a client, the one that called
// listen(2), as the kernel recorded it at the time: SO_PEERCRED of unix(7).
func PID(conn *net.UnixConn) (int, error) {
	cred, err := credentials(conn)
	return int(cred.Pid), err
}

// UID is the user of that process.
func UID(conn *net.UnixConn) (int, error) {
	cred, err := credentials(conn)
	return int(cred.Uid), err
}

func credentials(conn *net.UnixConn) (cred unix.Ucred, err error) {
	err = control(conn, func(fd int) error {
		found, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			cred = *found
		}
		return err
	})
	return cred, err
}
