//go:build linux || darwin

package launch

import (
	"errors"
	"net"
)

// control calls f with a connection's descriptor.
func control(conn *net.UnixConn, f func(fd int) error) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	return errors.Join(raw.Control(func(fd uintptr) { inner = f(int(fd)) }), inner)
}
