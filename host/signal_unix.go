//go:build unix

package main

import "syscall"

const brokenPipe = syscall.SIGPIPE
