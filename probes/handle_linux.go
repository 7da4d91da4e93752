package probes

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxPID is the greatest pid that a Linux kernel gives.
const maxPID = 1 << 22

// pidfsMagic is the type of the file system of pidfds since Linux 6.9, where
// each process has an inode of its own.
const pidfsMagic = 0x50494446

// handle is a pidfd and the pid that it had when it was opened.
type handle = *pidfd

type pidfd struct {
	pid int
	fd  int // -1 once it is closed

	// executed: the process was seen to have executed something since it was
	// forked. That is so for good, as the flag comes with a fork alone, and the
	// process is held.
	executed atomic.Bool
}

func openHandle(pid int) (handle, error) {
	fd, err := retry(func() (int, error) { return unix.PidfdOpen(pid, 0) })
	switch {
	case err == nil:
		return &pidfd{pid: pid, fd: fd}, nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
		// It is the number of a thread other than the first of a process.
		return nil, fmt.Errorf("pidfd_open: %w", ErrGone)
	}
	return nil, fmt.Errorf("pidfd_open: %w", typed(err))
}

// FromPidfd holds the process of a pidfd that was got otherwise, from a clone
// with syscall.SysProcAttr.PidFD for instance, and takes over the descriptor:
// Close closes it. If FromPidfd fails the descriptor stays the caller's.
//
// It makes sure that fd is a pidfd and, if /proc is mounted, that it is the one
// of that pid. The process may be gone already; its group can still be signalled.
// FromPidfd exists on Linux only.
func FromPidfd(pid, fd int) (*Process, error) {
	if err := checkPID(pid); err != nil {
		return nil, err
	}
	if err := checkPidfd(pid, fd); err != nil {
		return nil, fmt.Errorf("pidfd of process %d: %w", pid, err)
	}
	unix.CloseOnExec(fd)
	return newProcess(pid, &pidfd{pid: pid, fd: fd}), nil
}

// checkPidfd compares a pid with what the kernel says of a pidfd, which is -1
// after the process was reaped.
func checkPidfd(pid, fd int) error {
	if fd < 0 {
		return unix.EBADF
	}
	var buf [4096]byte
	// Any other descriptor is refused by this one.
	if err := (&pidfd{pid: pid, fd: fd}).held(); err != nil && !errors.Is(err, ErrGone) {
		return err
	}
	text, err := readSome(unix.AT_FDCWD, "/proc/self/fdinfo/"+strconv.Itoa(fd), buf[:])
	if errors.Is(err, unix.ENOENT) {
		return nil // no /proc; fd itself was open a moment ago
	}
	if err != nil {
		return typed(err)
	}
	switch got, err := parsePidfdInfo(text); {
	case err != nil:
		return err
	case got != pid && got != -1:
		return fmt.Errorf("it is the pidfd of process %d: %w", got, ErrInvalidPID)
	}
	return nil
}

// parsePidfdInfo reads the pid out of /proc/self/fdinfo of a pidfd.
func parsePidfdInfo(text []byte) (int, error) {
	for line := range bytes.Lines(text) {
		value, ok := bytes.CutPrefix(line, []byte("Pid:"))
		if !ok {
			continue
		}
		pid, err := strconv.Atoi(string(bytes.TrimSpace(value)))
		if err != nil {
			return 0, fmt.Errorf("malformed fdinfo: %w", err)
		}
		return pid, nil
	}
	return 0, fmt.Errorf("fdinfo names no pid: %w", unix.EBADF)
}

// typed puts the package's own error before that of the system.
func typed(err error) error {
	switch {
	case errors.Is(err, unix.ESRCH):
		return fmt.Errorf("%w: %w", ErrGone, err)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: %w", ErrPermission, err)
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return err
}

// held returns nil as long as nobody has reaped the process: until then its
// pid is its own. Whatever was read under the pid before held was asked is the
// process's.
func (h *pidfd) held() error {
	err := h.send(0, 0)
	if err == nil || errors.Is(err, unix.EPERM) {
		return nil
	}
	return typed(err)
}

func (h *pidfd) send(sig syscall.Signal, flags int) error {
	_, err := retry(func() (struct{}, error) {
		return struct{}{}, unix.PidfdSendSignal(h.fd, sig, nil, flags)
	})
	return err
}

// read reads the beginning of a file of the process's in /proc.
func (h *pidfd) read(name string, buf []byte) ([]byte, error) {
	proc, err := procDir()
	if err != nil {
		return nil, err
	}
	var path [pathSize]byte
	var b []byte
	if name == "stat" {
		b, err = readRecord(proc, string(appendPath(path[:0], h.pid, name)), buf)
	} else {
		b, err = readSome(proc, string(appendPath(path[:0], h.pid, name)), buf)
	}
	if gone := h.held(); gone != nil {
		return nil, gone
	}
	if errors.Is(err, unix.ENOENT) {
		// It is there, but not shown: mount option hidepid.
		return nil, fmt.Errorf("%w: /proc does not show it", ErrPermission)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, typed(err))
	}
	return b, nil
}

func (h *pidfd) stat() (stat, error) {
	var buf [2048]byte
	line, err := h.read("stat", buf[:])
	if err != nil {
		return stat{}, err
	}
	s, err := parseStat(line)
	if err == nil && !s.forked() && !s.kernel() {
		h.executed.Store(true)
	}
	return s, err
}

func (h *pidfd) birth() (Birth, error) {
	boot, err := bootID()
	if err != nil {
		return Birth{}, err
	}
	s, err := h.stat()
	if err != nil {
		return Birth{}, err
	}
	return Birth{BootID: boot, PID: h.pid, Start: s.start, PidfdInode: h.inode()}, nil
}

// inode returns the pidfd's inode number, or 0 where all pidfds share one.
func (h *pidfd) inode() uint64 {
	var st unix.Stat_t
	if !h.unique() || unix.Fstat(h.fd, &st) != nil {
		return 0
	}
	return st.Ino
}

// pidfs is set once a pidfd was found to be of the file system of pidfds, as then
// all of them are.
var pidfs atomic.Bool

// unique reports whether the pidfd has an inode of its own.
func (h *pidfd) unique() bool {
	if pidfs.Load() {
		return true
	}
	var fs unix.Statfs_t
	if unix.Fstatfs(h.fd, &fs) != nil || uint32(fs.Type) != pidfsMagic {
		return false
	}
	pidfs.Store(true)
	return true
}

func (h *pidfd) exited() (bool, error) {
	fds := [1]unix.PollFd{{Fd: int32(h.fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds[:], 0)
		switch {
		case err == nil:
			return n > 0 && fds[0].Revents&unix.POLLIN != 0, nil
		case err != unix.EINTR:
			return false, err
		}
	}
}

func (h *pidfd) state() (State, error) {
	exited, err := h.exited()
	if err != nil {
		return StateUnknown, err
	}
	if !exited {
		return Alive, nil
	}
	switch err := h.held(); {
	case err == nil:
		return Zombie, nil
	case errors.Is(err, ErrGone):
		return Gone, nil
	default:
		return StateUnknown, err
	}
}

func (h *pidfd) parent() (int, error) {
	s, err := h.stat()
	return s.ppid, err
}

func (h *pidfd) group() (int, error) {
	pgid, err := unix.Getpgid(h.pid)
	if gone := h.held(); gone != nil {
		return 0, gone
	}
	if err != nil {
		return 0, typed(err)
	}
	return pgid, nil
}

func (h *pidfd) signal(sig syscall.Signal) error {
	if err := h.send(sig, 0); err != nil {
		return typed(err)
	}
	return nil
}

func (h *pidfd) signalGroup(sig syscall.Signal) error {
	if unix.Getpgrp() == h.pid {
		return ErrSelf
	}
	switch pgid, err := h.group(); {
	case err == nil && pgid != h.pid:
		return ErrNotLeader
	case err != nil && !errors.Is(err, ErrGone):
		return err
	}
	err := h.send(sig, unix.PIDFD_SIGNAL_PROCESS_GROUP)
	if errors.Is(err, unix.EINVAL) {
		err = h.killGroup(sig)
	}
	if err != nil {
		return typed(err)
	}
	return nil
}

// killGroup is signalGroup for kernels that don't do it by pidfd: the number
// of the group can't be another's as long as its leader is not reaped.
func (h *pidfd) killGroup(sig syscall.Signal) error {
	if err := h.held(); err != nil {
		return err
	}
	return unix.Kill(-h.pid, sig)
}

func (h *pidfd) info() (Info, error) {
	s, err := h.stat()
	if err != nil {
		return Info{}, err
	}
	info := Info{PID: h.pid, PPID: s.ppid, PGID: s.pgid, Command: s.comm, Kernel: s.kernel(), UID: -1}
	if info.State, err = h.state(); err != nil {
		return Info{}, err
	}
	var buf [4096]byte
	if line, err := h.read("cmdline", buf[:]); err == nil {
		info.Args = splitArgs(line)
	}
	uid, uidErr := ownerOf(h.pid)
	if err := h.held(); err != nil {
		return Info{}, err
	}
	if uidErr == nil {
		info.UID = uid
		info.User = userName(uid)
	}
	return info, nil
}

// ownerOf returns the effective user id of a process, which owns its directory
// in /proc even if the process is not dumpable.
func ownerOf(pid int) (int, error) {
	var st unix.Stat_t
	proc, err := procDir()
	if err != nil {
		return -1, err
	}
	if err := unix.Fstatat(proc, strconv.Itoa(pid), &st, 0); err != nil {
		return -1, err
	}
	return int(st.Uid), nil
}

// userName returns the name of a user, or nothing if it has none.
func userName(uid int) string {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return ""
	}
	return u.Username
}

// splitArgs cuts a command line as /proc shows it: a NUL after each argument.
// A title that a process wrote over it may be padded with more of them.
func splitArgs(line []byte) []string {
	text := strings.TrimRight(string(line), "\x00")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\x00")
}

func (h *pidfd) close() error {
	if h.fd < 0 {
		return nil
	}
	err := unix.Close(h.fd)
	h.fd = -1
	return os.NewSyscallError("close", err)
}
