//go:build unix

package main

import "syscall"

// detached has a process not end with the terminal or the session of ours.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
