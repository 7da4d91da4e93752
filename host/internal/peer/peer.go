// Package peer tells who is at the other end of a Unix socket, by the kernel's
// word. What a system does not tell is an error that wraps
// errors.ErrUnsupported.
package peer

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
