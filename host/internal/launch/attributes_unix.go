//go:build unix && !linux

package launch

import "syscall"

// attributes puts the child into a process group of its own. These systems
// have no death signal; the lifeline does its work.
func attributes(hostDeath) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
