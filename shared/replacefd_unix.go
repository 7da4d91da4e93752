//go:build unix && !linux

package shared

import "golang.org/x/sys/unix"

// replaceFD makes the descriptor number fd mean what old does. A child that is
// forked in the midst of it inherits fd.
func replaceFD(old, fd int, closeOnExec bool) error {
	if err := unix.Dup2(old, fd); err != nil {
		return err
	}
	if closeOnExec {
		unix.CloseOnExec(fd)
	}
	return nil
}
