//go:build unix

package main

import "syscall"

// replaceImage returns only if it fails.
func replaceImage(path string, args, env []string) error {
	return syscall.Exec(path, args, env)
}
