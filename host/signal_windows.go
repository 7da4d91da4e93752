package main

import "syscall"

// brokenPipe is never sent on Windows.
const brokenPipe = syscall.SIGPIPE
