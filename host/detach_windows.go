package main

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// detached has a process not end with the console of ours.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP}
}
