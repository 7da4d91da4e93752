//go:build !linux && !darwin

package peer

import (
	"errors"
	"net"
)

// PID is not to be had here.
func PID(*net.UnixConn) (int, error) { return 0, errors.ErrUnsupported }

// UID is not asked here: a socket's mode and directory guard it.
func UID(*net.UnixConn) (int, error) { return 0, errors.ErrUnsupported }
