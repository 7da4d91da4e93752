//go:build unix

package launch

import "strconv"

// throughShell returns the command that has a shell set the limits which these
// systems let a process set only for itself, and then become the command. It
// is in force before the command's first instruction, in the same process; all
// that is lost is the name that the command is called by, which is its path.
// Without limits the command is as it was.
//
// Linux can do without a shell, unless the host lacks the capabilities to set
// the limits of another user's process.
func (c Confinement) throughShell(path string, args []string) (string, []string) {
	if c.OpenFiles == 0 && c.Nice == nil {
		return path, args
	}
	script := `exec "$0" "$@"`
	if c.Nice != nil {
		// renice(8) sets the priority itself, where nice(1) adds to it.
		script = "/usr/bin/renice " + strconv.Itoa(*c.Nice) + ` -p "$$" >/dev/null && ` + script
	}
	if c.OpenFiles != 0 {
		script = "ulimit -n " + strconv.Itoa(c.OpenFiles) + " && " + script
	}
	return "/bin/sh", append([]string{"sh", "-c", script, path}, args[min(1, len(args)):]...)
}
