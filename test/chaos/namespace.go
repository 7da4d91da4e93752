//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// envBase has this program be the init of a pid namespace, with mounts of its
// own, and names the directory that the storm takes place in.
const envBase = "CHAOS_BASE"

// diskSize is that of the state directory's disk. The logs of all services,
// with their bounds, are to have room in it.
const diskSize = "512m"

// longestTemp is how long the path of the directory for temporary files may be
// for the sockets to have room in the state directory below it.
const longestTemp = 45

// enter does the storm in namespaces of its own: of pids, where a pid can be
// chosen and nothing can outlive the storm; of mounts, where the state
// directory is a small disk; and of networks, where nobody else takes a port.
// Where that is not possible it is done without.
func enter(opts options) (int, error) {
	if base := os.Getenv(envBase); base != "" {
		return inside(opts, base)
	}
	dir := os.TempDir()
	if len(dir) > longestTemp {
		dir = "/tmp"
	}
	base, err := os.MkdirTemp(dir, "chaos-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(base)
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), envBase+"="+base)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
	}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	// An interrupt is for the one inside, which the terminal sends it too: its
	// end is this one's.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	err = cmd.Start()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		fmt.Fprintf(os.Stderr, "chaos: no namespaces here (%v)\n", err)
		signal.Stop(interrupts)
		return run(opts, base, false, false)
	}
	if err != nil {
		return 0, err
	}
	go func() {
		for range interrupts {
			_ = cmd.Process.Kill()
		}
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return code, nil
	}
	return 0, fmt.Errorf("the storm was ended: %v", cmd.ProcessState)
}

// inside is enter in the namespaces.
func inside(opts options, base string) (int, error) {
	if err := os.Unsetenv(envBase); err != nil {
		return 0, err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return 0, fmt.Errorf("cannot have mounts of one's own: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return 0, fmt.Errorf("cannot mount /proc: %w", err)
	}
	if err := raiseLoopback(); err != nil {
		return 0, fmt.Errorf("cannot have a network of one's own: %w", err)
	}
	state := filepath.Join(base, "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		return 0, err
	}
	err := unix.Mount("chaos", state, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700,size="+diskSize)
	if err != nil {
		fmt.Fprintf(os.Stderr, "chaos: nothing can be mounted here (%v)\n", err)
	}
	return run(opts, base, err == nil, true)
}

// raiseLoopback makes the loopback interface of a new namespace work.
func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}
