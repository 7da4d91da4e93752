package main

import "syscall"

// attributes puts a server into a process group of its own, and has the kernel
// end it if this process is killed. What it started itself the host finds.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
