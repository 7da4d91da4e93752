package probes

import "errors"

var (
	// ErrInvalidPID refuses a pid that no process can have: zero and negative
	// numbers, which kill(2) reads as a group or as everyone, and numbers
	// above the system's limit.
	ErrInvalidPID = errors.New("not the pid of a process")

	// ErrSelf refuses the calling process, or its own process group.
	ErrSelf = errors.New("this is the calling process itself")

	// ErrGone says that the process (or the last one of a group) has exited
	// and nothing but perhaps a zombie is left.
	ErrGone = errors.New("process is gone")

	// ErrPermission says that the system withholds the answer or refuses the
	// signal.
	ErrPermission = errors.New("permission denied")

	// ErrNotLeader says that a process does not lead its process group, so
	// that the group is not known to be its own.
	ErrNotLeader = errors.New("process does not lead its process group")

	// ErrNotExited says that a process has no exit status, since it lives.
	ErrNotExited = errors.New("process has not exited")

	// ErrNotReaped says that a process has exited, and that its status is not to
	// be had before its parent has reaped it.
	ErrNotReaped = errors.New("process is not reaped yet")

	// ErrUnreadable says that the environment of a live process could not be
	// read, or that what was read is not an environment. It never means that
	// the process is unmarked.
	ErrUnreadable = errors.New("environment cannot be read")
)
