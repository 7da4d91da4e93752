package launch

import "syscall"

// attributes puts the child into a process group of its own, which a stop ends
// as a whole and a Ctrl-C on the host's terminal does not reach, and has the
// kernel signal it when the host dies. Between fork and exec Go itself looks
// whether the parent died before the death signal was armed.
func attributes(death hostDeath) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	switch death {
	case deathKills:
		attr.Pdeathsig = syscall.SIGKILL
	case deathAsks:
		attr.Pdeathsig = syscall.SIGTERM
	}
	return attr
}
