package probes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func listeners(ctx context.Context, port uint16, hints []int) ([]Listener, error) {
	sockets, err := listening(port)
	if len(sockets) == 0 || err != nil {
		return nil, err
	}
	if err := checkProc(); err != nil {
		return nil, fmt.Errorf("listeners on port %d: %w", port, err)
	}
	proc, err := openat(unix.AT_FDCWD, "/proc", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, fmt.Errorf("listeners on port %d: open /proc: %w", port, typed(err))
	}
	defer unix.Close(proc)
	s := &socketSearch{proc: proc, dents: make([]byte, 32<<10), holders: make(map[uint64][]int)}
	for _, socket := range sockets {
		s.holders[socket.Inode] = nil
	}
	if err := s.run(ctx, hints); err != nil {
		return nil, fmt.Errorf("listeners on port %d: %w", port, err)
	}
	if !s.complete() {
		// Some may just have been closed.
		if sockets, err = listening(port); err != nil {
			return nil, err
		}
	}
	var all []Listener
	for _, socket := range sockets {
		all = append(all, s.name(socket)...)
	}
	return all, nil
}

// listening returns the sockets that listen on a port, without their holders.
func listening(port uint16) ([]Listener, error) {
	sockets, err := diagListeners(port)
	if err == nil {
		return sockets, nil
	}
	sockets, netErr := procNetListeners(port)
	if netErr != nil {
		return nil, fmt.Errorf("listeners on port %d: %w", port, errors.Join(err, netErr))
	}
	return sockets, nil
}

// socketSearch looks for sockets among the file descriptors of processes.
type socketSearch struct {
	proc    int              // the open directory
	holders map[uint64][]int // pids by the inode of a sought socket
	dents   []byte
	numbers []int
	denied  int // processes that could not be looked into
}

// run looks through the hinted processes and then, unless each socket has got
// a holder, through all others.
func (s *socketSearch) run(ctx context.Context, hints []int) error {
	hints = slices.DeleteFunc(slices.Clone(hints), func(pid int) bool { return pid <= 0 || pid > maxPID })
	slices.Sort(hints)
	hints = slices.Compact(hints)
	if err := s.each(ctx, hints); err != nil {
		return err
	}
	if len(hints) > 0 && s.complete() {
		return nil
	}
	pids, err := numbersIn(s.proc, s.dents, nil)
	if err != nil {
		return fmt.Errorf("read /proc: %w", err)
	}
	pids = slices.DeleteFunc(pids, func(pid int) bool {
		_, seen := slices.BinarySearch(hints, pid)
		return seen
	})
	return s.each(ctx, pids)
}

func (s *socketSearch) complete() bool {
	for _, pids := range s.holders {
		if len(pids) == 0 {
			return false
		}
	}
	return true
}

func (s *socketSearch) each(ctx context.Context, pids []int) error {
	for i, pid := range pids {
		if i%64 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := s.look(pid); err != nil {
			return fmt.Errorf("file descriptors of process %d: %w", pid, err)
		}
	}
	return nil
}

// look searches the descriptors of one process. It fails only for want of
// means.
func (s *socketSearch) look(pid int) error {
	dir, err := openat(s.proc, strconv.Itoa(pid)+"/fd", unix.O_RDONLY|unix.O_DIRECTORY)
	if err == nil {
		defer unix.Close(dir)
		s.numbers, err = numbersIn(dir, s.dents, s.numbers[:0])
	}
	switch {
	case err == nil:
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		s.denied++
		return nil
	case exhausted(err):
		return err
	default:
		return nil // gone
	}
	var link [64]byte
	for _, fd := range s.numbers {
		n, err := unix.Readlinkat(dir, strconv.Itoa(fd), link[:])
		if err != nil {
			continue
		}
		inode, ok := socketInode(link[:n])
		if !ok {
			continue
		}
		if pids, sought := s.holders[inode]; sought && !slices.Contains(pids, pid) {
			s.holders[inode] = append(pids, pid)
		}
	}
	return nil
}

// socketInode reads the inode out of a link such as "socket:[4711]".
func socketInode(link []byte) (uint64, bool) {
	const before, after = "socket:[", "]"
	if len(link) <= len(before)+len(after) || string(link[:len(before)]) != before || link[len(link)-1] != after[0] {
		return 0, false
	}
	var inode uint64
	for _, c := range link[len(before) : len(link)-1] {
		if c < '0' || c > '9' {
			return 0, false
		}
		inode = inode*10 + uint64(c-'0')
	}
	return inode, true
}

// name turns a socket into one listener for each of its holders.
func (s *socketSearch) name(socket Listener) []Listener {
	var named []Listener
	for _, pid := range slices.Clone(s.holders[socket.Inode]) {
		l := socket
		info, err := s.holderInfo(pid, socket.Inode)
		switch {
		case errors.Is(err, ErrGone):
			continue
		case err != nil:
			l.Reason = "the holder can't be described: " + err.Error()
		default:
			l.UID, l.User, l.Command = info.UID, info.User, info.Command
			if len(info.Args) > 0 {
				l.Command = strings.Join(info.Args, " ")
			}
		}
		l.PID = pid
		named = append(named, l)
	}
	if len(named) > 0 {
		return named
	}
	socket.User = userName(socket.UID)
	switch {
	case s.denied > 0:
		socket.Reason = fmt.Sprintf("the holder is not to be seen: %d processes of other users can't be looked into", s.denied)
	default:
		socket.Reason = "no process in sight holds the socket"
	}
	return []Listener{socket}
}

// holderInfo describes a holder, if it still is one; else the error is ErrGone.
// The process is held while its descriptors are looked at once more, since the
// pid alone was remembered.
func (s *socketSearch) holderInfo(pid int, inode uint64) (Info, error) {
	p, err := hold(pid)
	if err != nil {
		return Info{}, err
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return Info{}, err
	}
	s.holders[inode] = nil
	if err := s.look(pid); err != nil {
		return Info{}, err
	}
	if len(s.holders[inode]) == 0 || p.Exited() {
		return Info{}, ErrGone
	}
	return info, nil
}
