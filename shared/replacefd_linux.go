package shared

import "golang.org/x/sys/unix"

// replaceFD makes the descriptor number fd mean what old does.
func replaceFD(old, fd int, closeOnExec bool) error {
	flags := 0
	if closeOnExec {
		flags = unix.O_CLOEXEC
	}
	return unix.Dup3(old, fd, flags) // dup2 is not on every processor
}
