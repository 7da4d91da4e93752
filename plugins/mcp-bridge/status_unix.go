//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// exitStatus is the exit status of a process, or 128 and the signal's number.
func exitStatus(exit *exec.ExitError) int {
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}
