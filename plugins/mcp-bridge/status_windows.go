package main

import "os/exec"

// exitStatus is the exit status of a process.
func exitStatus(exit *exec.ExitError) int { return exit.ExitCode() }
