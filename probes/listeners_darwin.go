package probes

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// listeners asks libproc for the sockets of each process, or lsof if libproc's
// answers can't be trusted. Both show a user the sockets of his own processes
// only, so what netstat shows beyond these is held by somebody unseen.
func listeners(ctx context.Context, port uint16, hints []int) ([]Listener, error) {
	ask := askLsof
	if socketsTrusted() == nil {
		ask = askLibproc
	}
	all, err := ask(ctx, port, hints)
	if err != nil {
		return nil, fmt.Errorf("listeners on port %d: %w", port, err)
	}
	if os.Geteuid() == 0 || len(all) > 0 && len(hints) > 0 {
		return all, nil
	}
	more, err := askNetstat(ctx, port)
	if err != nil {
		if len(all) > 0 {
			return all, nil
		}
		return nil, fmt.Errorf("listeners on port %d: %w", port, err)
	}
	for _, l := range more {
		if !slices.ContainsFunc(all, l.sameSocket) {
			all = append(all, l)
		}
	}
	return all, nil
}

// socketsTrusted makes sure, at the first use, that libproc writes what is read
// here: it has to show a listener of this very process.
var socketsTrusted = sync.OnceValue(func() error {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("libproc is not checked: %w", err)
	}
	defer l.Close()
	addr := l.Addr().(*net.TCPAddr).AddrPort()
	sockets, _ := socketsOf(os.Getpid(), addr.Port(), nil)
	for _, s := range sockets {
		if s.Addr == addr && s.Network == "tcp4" && s.Inode != 0 {
			return nil
		}
	}
	return errors.New("libproc does not show a socket that is there")
})

// socketsOf returns the listening sockets of a process. It is false if the
// process is gone, or another user's.
func socketsOf(pid int, port uint16, buf []byte) ([]Listener, bool) {
	size := procPIDInfo(pid, procPIDListFDs, 0, nil)
	if size <= 0 {
		return nil, false
	}
	for {
		// The list may grow.
		if size += 16 * procFDInfoSize; len(buf) < size {
			buf = make([]byte, 2*size)
		}
		n := procPIDInfo(pid, procPIDListFDs, 0, buf)
		if n <= 0 {
			return nil, false
		}
		if n+procFDInfoSize <= len(buf) {
			buf = buf[:n]
			break
		}
		size = 2 * len(buf)
	}
	var sockets []Listener
	var info [socketInfoSize]byte
	for ; len(buf) >= procFDInfoSize; buf = buf[procFDInfoSize:] {
		fd, kind := binary.LittleEndian.Uint32(buf), binary.LittleEndian.Uint32(buf[4:])
		if kind != procFDSocket || procPIDFDInfo(pid, int(int32(fd)), procPIDFDSocketInfo, info[:]) != len(info) {
			continue
		}
		if l, ok := parseSocketInfo(info[:]); ok && l.Addr.Port() == port {
			l.PID = pid
			sockets = append(sockets, l)
		}
	}
	return sockets, true
}

// askLibproc looks through the hinted processes, and through all if these hold
// no socket that listens on the port.
func askLibproc(ctx context.Context, port uint16, hints []int) ([]Listener, error) {
	buf := make([]byte, 32<<10)
	look := func(pids []int) ([]Listener, error) {
		var all []Listener
		for i, pid := range pids {
			if i%64 == 0 && ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			sockets, _ := socketsOf(pid, port, buf)
			if len(sockets) == 0 {
				continue
			}
			named, err := nameSockets(pid, port, buf)
			if err != nil {
				return nil, err
			}
			all = append(all, named...)
		}
		return all, nil
	}
	hints = slices.DeleteFunc(slices.Clone(hints), func(pid int) bool { return pid <= 0 || pid > maxPID })
	slices.Sort(hints)
	found, err := look(slices.Compact(hints))
	if err != nil || len(found) > 0 {
		return found, err
	}
	pids, err := allPIDs()
	if err != nil {
		return nil, err
	}
	return look(pids)
}

// nameSockets describes a process that was seen to hold a socket, if it still
// does when it is held itself.
func nameSockets(pid int, port uint16, buf []byte) ([]Listener, error) {
	p, err := hold(pid)
	if err != nil {
		if errors.Is(err, ErrGone) {
			return nil, nil
		}
		return nil, err
	}
	defer p.Close()
	info, infoErr := p.Info()
	sockets, _ := socketsOf(pid, port, buf)
	if p.Exited() {
		return nil, nil
	}
	// Several descriptors may be of one socket.
	var all []Listener
	for _, l := range sockets {
		if infoErr == nil {
			l.describe(info)
		} else {
			l.Reason = "the holder can't be described: " + infoErr.Error()
		}
		if !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	return all, nil
}

// allPIDs lists the pids of all processes.
func allPIDs() ([]int, error) {
	const spare = 64
	for size := 4096; size <= 4*(maxPID+spare); size *= 2 {
		buf := make([]byte, size)
		n := procListPIDs(buf)
		if n <= 0 {
			return nil, errors.New("proc_listpids lists no process")
		}
		if n+4*spare > len(buf) {
			continue // there may be more
		}
		var pids []int
		for buf = buf[:n]; len(buf) >= 4; buf = buf[4:] {
			if pid := int(int32(binary.LittleEndian.Uint32(buf))); pid > 0 {
				pids = append(pids, pid)
			}
		}
		return pids, nil
	}
	return nil, fmt.Errorf("proc_listpids: %w", unix.ENOMEM)
}

func askLsof(ctx context.Context, port uint16, hints []int) ([]Listener, error) {
	ask := func() ([]heldSocket, error) {
		// -w keeps it from warnings.
		out, err := runTool(ctx, "/usr/sbin/lsof", "-nPw", "-iTCP:"+strconv.Itoa(int(port)), "-sTCP:LISTEN", "-FpftnT")
		return parseLsof(out, port), err
	}
	found, err := ask()
	if err != nil {
		return nil, err
	}
	all, err := describeHolders(found, ask)
	return hinted(all, hints), err
}

// askNetstat returns the listening sockets without their holders.
func askNetstat(ctx context.Context, port uint16) ([]Listener, error) {
	out, err := runTool(ctx, "/usr/sbin/netstat", "-anl", "-p", "tcp")
	if err != nil {
		return nil, err
	}
	var all []Listener
	for _, s := range parseNetstat(out, port) {
		l := s.listener()
		l.Reason = unseen
		all = append(all, l)
	}
	return all, nil
}
