package probes

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/plughost/plughost/shared/marker"
)

// What <sys/proc.h> says and x/sys does not.
const (
	procZombie = 5      // SZOMB
	procSystem = 0x200  // P_SYSTEM
	procExeced = 0x4000 // P_EXEC
)

// readProcess asks the kernel about a process, a zombie too. The error is
// ErrGone if there is none.
//
// The answer of sysctl and the unique identifier are two calls. If the pid
// changed hands between them, what comes out is a birth that no process has,
// which the next look does not confirm.
func readProcess(pid int) (process, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if errors.Is(err, unix.EIO) {
		// x/sys says so if the answer is empty.
		err = unix.ESRCH
	}
	if err != nil {
		return process{}, fmt.Errorf("kern.proc.pid: %w", typed(err))
	}
	if int(k.Proc.P_pid) != pid {
		return process{}, ErrGone
	}
	p := processOf(k)
	if uniq, ok := readUniq(pid); ok {
		p.unique = uniq.id
	}
	return p, nil
}

// processOf lacks the unique identifier.
func processOf(k *unix.KinfoProc) process {
	return process{
		birth:   birth{start: uint64(k.Proc.P_starttime.Sec)*1e6 + uint64(k.Proc.P_starttime.Usec)},
		pid:     int(k.Proc.P_pid),
		ppid:    int(k.Eproc.Ppid),
		pgid:    int(k.Eproc.Pgid),
		uid:     int(k.Eproc.Ucred.Uid),
		command: unix.ByteSliceToString(k.Proc.P_comm[:]),
		zombie:  k.Proc.P_stat == procZombie,
		forked:  k.Proc.P_flag&procExeced == 0,
		kernel:  k.Proc.P_pid == 0 || k.Proc.P_flag&procSystem != 0 && k.Proc.P_pid != 1,
	}
}

func readAll() ([]process, error)           { return readSome("kern.proc.all") }
func readUser(uid int) ([]process, error)   { return readSome("kern.proc.uid", uid) }
func readGroup(pgid int) ([]process, error) { return readSome("kern.proc.pgrp", pgid) }

// readSome lists processes, zombies too, without their unique identifiers.
func readSome(name string, args ...int) ([]process, error) {
	all, err := unix.SysctlKinfoProcSlice(name, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	list := make([]process, len(all))
	for i := range all {
		list[i] = processOf(&all[i])
	}
	return list, nil
}

// readProcArgs reads the argument blob of a process. XNU says EINVAL for one of
// another user, for a zombie, and if there is none.
//
// x/sys asks for the size first. If the process executes something with more
// arguments in between, the kernel leaves out the front of the answer: the blob
// is refused as malformed then, or differs from the next one.
func readProcArgs(pid int) (marker.ProcArgs, error) {
	blob, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil {
		return marker.ProcArgs{}, fmt.Errorf("kern.procargs2: %w", err)
	}
	if len(blob) > maxEnviron {
		return marker.ProcArgs{}, fmt.Errorf("arguments of more than %d bytes: %w", maxEnviron, unix.E2BIG)
	}
	args, err := marker.ParseProcArgs(blob)
	if err != nil {
		return marker.ProcArgs{}, errAgain{err}
	}
	return args, nil
}

// readEnviron reads an environment block. The error is errWithheld for programs
// of the system's own, whose environments are kept back even from root.
func readEnviron(pid int) ([]byte, error) {
	args, err := readProcArgs(pid)
	if err != nil {
		return nil, err
	}
	if args.Withheld {
		return nil, errWithheld
	}
	return args.Environ, nil
}

func readArgs(pid int) ([]string, error) {
	args, err := readProcArgs(pid)
	return args.Args, err
}

// versions is how often a signal is sent anew to a process that executed
// something between the look at its version and the signal.
const versions = 16

// deliver sends a signal to the process, which has not exited a moment ago. By
// the version of its pid it can hit nobody else; where the system does not offer
// that (before macOS 14.2) it looks again and sends it by the pid.
func (h *watched) deliver(sig syscall.Signal) error {
	if sig == 0 || h.born.unique == 0 {
		// Signal 0 asks only, and the other way does not take it.
		return h.checkAndKill(sig)
	}
	for range versions {
		uniq, ok := readUniq(h.pid)
		if !ok || uniq.id != h.born.unique {
			break // it is on its way out
		}
		err := signalVersion(newAuditToken(h.pid, uniq.version), sig)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL) && validSignal(sig), errors.Is(err, unix.ENOTSUP):
			return h.checkAndKill(sig)
		case !errors.Is(err, unix.ESRCH):
			return typed(err)
		}
		// It executed something, or has exited.
		if exited, err := h.exited(); err != nil || exited {
			break
		}
	}
	return h.checkAndKill(sig)
}

// validSignal reports whether EINVAL can't be about the signal.
func validSignal(sig syscall.Signal) bool { return sig > 0 && sig < 32 }

// BootID returns the UUID that XNU makes at boot. (The time of the boot, the
// other thing that tells one boot from the next, moves with the clock.)
func BootID() (string, error) {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	if id == "" {
		return "", errors.New("boot id: it is empty")
	}
	return id, nil
}
