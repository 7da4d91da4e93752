package launch

import "syscall"

// Attributes is attributes, for tests.
func Attributes(dieWithHost bool) *syscall.SysProcAttr {
	if dieWithHost {
		return attributes(deathKills)
	}
	return attributes(deathSpares)
}
