package probes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/plughost/plughost/shared/marker"
)

func listeners(ctx context.Context, port uint16, hints []int) ([]Listener, error) {
	sockets, err := listening(port)
	if len(sockets) == 0 || err != nil {
		return nil, err
	}
	proc, err := listProc()
	if err != nil {
		return nil, fmt.Errorf("listeners on port %d: %w", port, err)
	}
	defer unix.Close(proc)
	s := &socketSearch{proc: proc, holders: make(map[uint64][]int)}
	for _, socket := range sockets {
		s.inodes = append(s.inodes, socket.Inode)
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
	proc   int      // the open directory
	inodes []uint64 // of the sought sockets

	mu      sync.Mutex
	holders map[uint64][]int // pids by the inode of a sought socket
	denied  int              // processes that could not be looked into
}

// run looks through the hinted processes, then through those that seem to carry a
// marker, and then through all others. It ends with the first of these groups
// after which each socket has got a holder.
func (s *socketSearch) run(ctx context.Context, hints []int) error {
	hints = slices.DeleteFunc(slices.Clone(hints), func(pid int) bool { return pid <= 0 || pid > maxPID })
	slices.Sort(hints)
	hints = slices.Compact(hints)
	if err := s.each(ctx, hints); err != nil || s.complete() {
		return err
	}
	everybody := pidLists.Get().(*pidList)
	defer pidLists.Put(everybody)
	marked, err := everybody.fill(ctx, s.proc)
	if err != nil {
		return err
	}
	if err := s.each(ctx, without(marked, hints)); err != nil || s.complete() {
		return err
	}
	slices.Sort(marked)
	return s.each(ctx, without(without(everybody.pids, hints), marked))
}

// without removes pids that are in another list, a sorted one.
func without(pids, others []int) []int {
	return slices.DeleteFunc(pids, func(pid int) bool {
		_, found := slices.BinarySearch(others, pid)
		return found
	})
}

// pidList is a list whose memory is used again and again.
type pidList struct {
	mu   sync.Mutex
	pids []int
}

var pidLists = sync.Pool{New: func() any { return new(pidList) }}

// fill lists all processes, and returns those that seem to carry a marker. Nothing
// but the order of a search may rest on it.
func (l *pidList) fill(ctx context.Context, proc int) (marked []int, err error) {
	l.pids = l.pids[:0]
	sight := sightOf(proc, marker.Prefix)
	err = overAll(proc, func(pids []int) error {
		g := glancers.Get().(*glancer)
		defer g.release()
		g.sight = sight
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var maybe []int
		for _, pid := range pids {
			seen, err := g.glance(pid)
			if err != nil {
				return fmt.Errorf("process %d: %w", pid, err)
			}
			if seen == glanceMaybe {
				maybe = append(maybe, pid)
			}
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.pids, marked = append(l.pids, pids...), append(marked, maybe...)
		return nil
	})
	return marked, err
}

func (s *socketSearch) complete() bool {
	for _, inode := range s.inodes {
		if len(s.holders[inode]) == 0 {
			return false
		}
	}
	return true
}

// each looks through the processes.
func (s *socketSearch) each(ctx context.Context, pids []int) error {
	return inParts(pids, func(pids []int) error { return s.part(ctx, pids) })
}

func (s *socketSearch) part(ctx context.Context, pids []int) error {
	r := linkReaders.Get().(*linkReader)
	defer linkReaders.Put(r)
	for i, pid := range pids {
		if i%64 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := s.look(r, pid); err != nil {
			return fmt.Errorf("file descriptors of process %d: %w", pid, err)
		}
	}
	return nil
}

// linkReader has what it takes to read the links of descriptors, to be used again
// and again.
type linkReader struct {
	entries []byte
	numbers []int
	link    [64]byte
}

var linkReaders = sync.Pool{New: func() any { return &linkReader{entries: make([]byte, 32<<10)} }}

// look searches the descriptors of one process. It fails only for want of
// means.
func (s *socketSearch) look(r *linkReader, pid int) error {
	var path [pathSize]byte
	dir, err := openat(s.proc, string(appendPath(path[:0], pid, "fd")), unix.O_RDONLY|unix.O_DIRECTORY)
	if err == nil {
		defer unix.Close(dir)
		r.numbers, err = numbersIn(dir, r.entries, r.numbers[:0])
	}
	switch {
	case err == nil:
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		s.mu.Lock()
		defer s.mu.Unlock()
		s.denied++
		return nil
	case exhausted(err):
		return err
	default:
		return nil // gone
	}
	for _, fd := range r.numbers {
		name := strconv.AppendInt(path[:0], int64(fd), 10)
		if !maybeSocket(dir, string(name)) {
			continue
		}
		link, err := readlinkat(dir, string(name), r.link[:])
		if err != nil {
			continue
		}
		if inode, ok := socketInode(link); ok && slices.Contains(s.inodes, inode) {
			s.found(inode, pid)
		}
	}
	return nil
}

func (s *socketSearch) found(inode uint64, pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.holders[inode], pid) {
		s.holders[inode] = append(s.holders[inode], pid)
	}
}

// maybeSocket reports whether a link in /proc/PID/fd may be a socket's. Its mode
// shows how the file was opened, and sockets always are for reading and writing.
// This costs a third of what reading the link does, and touches no file system
// but /proc.
func maybeSocket(dir int, name string) bool {
	const both = unix.S_IRUSR | unix.S_IWUSR
	mode, err := modeAt(dir, name)
	return err != nil || mode&both == both
}

// socketInode reads the inode out of a link such as "socket:[4711]".
func socketInode(link []byte) (uint64, bool) {
	const before, after = "socket:[", "]"
	if len(link) <= len(before)+len(after) || string(link[:len(before)]) != before || link[len(link)-1] != after[0] {
		return 0, false
	}
	var inode uint64
	for _, c := range link[len(before) : len(link)-1] {
		digit := uint64(c - '0')
		if c < '0' || c > '9' || inode > (math.MaxUint64-digit)/10 {
			return 0, false
		}
		inode = inode*10 + digit
	}
	return inode, true
}

// name turns a socket into one listener for each of its holders.
func (s *socketSearch) name(socket Listener) []Listener {
	var named []Listener
	for _, pid := range slices.Sorted(slices.Values(s.holders[socket.Inode])) {
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
	if err := s.part(context.Background(), []int{pid}); err != nil {
		return Info{}, err
	}
	if len(s.holders[inode]) == 0 || p.Exited() {
		return Info{}, ErrGone
	}
	return info, nil
}
