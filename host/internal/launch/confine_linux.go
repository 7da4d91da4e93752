package launch

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// spawn starts the runner's command, confined.
func (r *runner) spawn() error {
	c := r.confinement
	if r.image != nil {
		given := append([]*os.File{}, r.cmd.ExtraFiles...)
		for _, stream := range []any{r.cmd.Stdout, r.cmd.Stderr} {
			if file, ok := stream.(*os.File); ok {
				given = append(given, file)
			}
		}
		path, unstage, err := r.image.stage(given)
		if err != nil {
			return err
		}
		defer unstage()
		r.cmd.Path = path
		defer func() { r.cmd.Path = r.image.path }()
	}
	if r.group != nil {
		r.cmd.SysProcAttr.UseCgroupFD, r.cmd.SysProcAttr.CgroupFD = true, r.group.FD()
	}
	if c.Account != nil {
		become(c.Account, r.cmd)
		// Between fork and exec the child shares the host's memory, which the
		// kernel protects from other processes when the child becomes another
		// user. Programs that identify the host read its environment.
		r.spawner.switching.Lock()
		defer r.spawner.switching.Unlock()
		if before, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err == nil && before == 1 {
			defer func() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) }()
		}
	}
	direct, itself := c.whoSets()
	if itself.OpenFiles != 0 || itself.Nice != nil {
		if r.image != nil {
			return &ConfigError{errors.New("checksum and user together with limits.open_files need the capability CAP_SYS_RESOURCE, with limits.nice CAP_SYS_NICE, which the host has not got: leave one of them out")}
		}
		path, args := r.cmd.Path, r.cmd.Args
		r.cmd.Path, r.cmd.Args = itself.throughShell(path, args)
		defer func() { r.cmd.Path, r.cmd.Args = path, args }()
	}
	var adjust func(pid int) error
	if direct.OpenFiles != 0 || direct.Nice != nil {
		adjust = direct.adjust
	}
	err := r.spawner.spawn(r.cmd, c.NoNewPrivs, adjust)
	if err == nil {
		return nil
	}
	return c.explainSpawn(r, err)
}

// whoSets says which limits the host sets for the child, and which the child
// must set for itself. The host may set its own user's, but another one's only
// with capabilities that root has not got in many a container (prlimit(2),
// setpriority(2)).
func (c Confinement) whoSets() (host, child Confinement) {
	host = Confinement{OpenFiles: c.OpenFiles, Nice: c.Nice}
	if c.Account == nil || int(c.Account.UID) == os.Geteuid() && int(c.Account.GID) == os.Getegid() {
		return host, child
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	_ = unix.Capget(&header, &data[0]) // if it fails, there is none
	has := func(capability int) bool { return data[capability/32].Effective&(1<<(capability%32)) != 0 }
	if !has(unix.CAP_SYS_RESOURCE) {
		host.OpenFiles, child.OpenFiles = 0, c.OpenFiles
	}
	if !has(unix.CAP_SYS_NICE) {
		host.Nice, child.Nice = nil, c.Nice
	}
	return host, child
}

// adjust sets what the system lets one process set for another.
func (c Confinement) adjust(pid int) error {
	if n := uint64(c.OpenFiles); n != 0 {
		err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n}, nil)
		if errors.Is(err, unix.EPERM) {
			return &ConfigError{fmt.Errorf("limits.open_files: %d is more than the host itself may have: raise the host's limit (LimitNOFILE of systemd, ulimit -Hn) or lower this one", n)}
		}
		if err != nil {
			return fmt.Errorf("cannot set limits.open_files: %w", err)
		}
	}
	if c.Nice != nil {
		err := unix.Setpriority(unix.PRIO_PROCESS, pid, *c.Nice)
		if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
			return &ConfigError{fmt.Errorf("limits.nice: %d is a higher priority than the host may give: run the host as root, or write a higher number", *c.Nice)}
		}
		if err != nil {
			return fmt.Errorf("cannot set limits.nice: %w", err)
		}
	}
	return nil
}

// explainSpawn says of an error of the system which setting it comes from,
// where that is not plain.
func (c Confinement) explainSpawn(r *runner, err error) error {
	var fault *ConfigError
	switch {
	case errors.As(err, &fault):
		return err
	case r.image != nil && errors.Is(err, unix.ENOENT) && !exists("/proc/self/fd"):
		return fmt.Errorf("cannot execute the verified copy of %s: /proc is not mounted", r.image.path)
	case r.cmd.SysProcAttr.Ptrace && errors.Is(err, unix.EPERM) && c.Account == nil:
		return &ConfigError{fmt.Errorf("limits.open_files and limits.nice need ptrace(2), which the system forbids here (seccomp, or sysctl kernel.yama.ptrace_scope): %w", err)}
	}
	return c.explainAccount(r.cmd, err)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
