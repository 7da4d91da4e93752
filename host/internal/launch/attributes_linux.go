package launch

import "syscall"

// attributes puts the child into a process group of its own, which a stop ends
// as a whole and a Ctrl-C on the host's terminal does not reach, and has the
// kernel kill it when the host dies. Between fork and exec Go itself looks
// whether the parent died before the death signal was armed.
func attributes(dieWithHost bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if dieWithHost {
		attr.Pdeathsig = syscall.SIGKILL
	}
	return attr
}
