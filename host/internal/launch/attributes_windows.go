package launch

import "syscall"

// attributes puts the child into a process group of its own, which a Ctrl-C
// on the host's console does not reach.
func attributes(bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
