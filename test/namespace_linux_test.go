package test

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// inPIDNamespace has a command be the first process of a new namespace, with a
// /proc of its own. The test is skipped where the system allows no namespaces.
func inPIDNamespace(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	attributes := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		attributes.Cloneflags |= syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	probe := exec.Command("/bin/true")
	probe.SysProcAttr = attributes
	if err := probe.Run(); errors.Is(err, syscall.EPERM) {
		t.Skipf("this system allows no pid namespaces: %v", err)
	}
	// The mount of /proc takes a shell between the namespace and the command.
	const script = `mount --make-rprivate / && mount -t proc proc /proc && exec "$0" "$@"`
	cmd.Args = append([]string{"/bin/sh", "-c", script, cmd.Path}, cmd.Args[1:]...)
	cmd.Path, cmd.SysProcAttr = "/bin/sh", attributes
}
