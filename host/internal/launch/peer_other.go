//go:build !linux && !darwin

package launch

import (
	"errors"
	"net"
)

// listenerPID is not to be had here: the plugin's TLS certificate has to do.
func listenerPID(*net.UnixConn) (int, error) { return 0, errors.ErrUnsupported }
