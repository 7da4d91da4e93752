//go:build linux || darwin || freebsd

package probes

import "golang.org/x/sys/unix"

// openFiles counts the file descriptors of the test.
func openFiles() int {
	const most = 4096
	n := 0
	for fd := range most {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			n++
		}
	}
	return n
}
