// Package probes answers what a live process is, and ends processes that are
// proven to be the caller's own.
//
// A pid is only a number: between two looks at it the process may have gone
// and a stranger may have taken the number over. So everything here begins
// with [Open], which makes the operating system hold on to one process (a
// pidfd on Linux), and every answer and every signal goes through that handle.
//
// Whether a process is one's own is decided by [Process.Identify], from the
// marker variables in its environment (package marker) and from its [Birth]
// record. The verdict [Unknown] means that it could not be told; nothing in
// this package sends a signal to a process whose verdict is not [Ours].
//
// Linux is supported fully, see [Coverage] for what the running kernel lends
// to it. macOS and FreeBSD have no descriptor of a process that is not one's
// child; a kqueue that waits for its exit and its birth record stand in for it.
// Since macOS 14.2 a signal is bound to the process even so; before, and on
// FreeBSD, between the last look and the signal there are microseconds. On
// Windows a handle holds a process, and with it the pid, which nobody else is
// given meanwhile. On systems without support every process is unknown, the
// functions answer with an error that wraps errors.ErrUnsupported, and nothing
// is ever signalled.
package probes
