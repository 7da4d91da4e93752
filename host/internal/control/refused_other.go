//go:build !windows

package control

import "syscall"

// connRefused says that nobody listens on a socket that is there.
const connRefused = syscall.ECONNREFUSED
