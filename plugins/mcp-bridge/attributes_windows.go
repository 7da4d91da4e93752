package main

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// attributes puts a server into a console process group of its own, without a
// window.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
}
