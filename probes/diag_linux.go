package probes

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The layout of linux/inet_diag.h. A request is 56 bytes: family, protocol,
// extensions, padding (a byte each), the states as a bit set (4), and a socket
// id. An id is source port, destination port (2 bytes each, in network order),
// source and destination (16 each), interface (4), cookie (8). An answer is 72
// bytes: family, state, timer, retransmissions (a byte each), an id, expiry,
// both queues, user and inode (4 each).
const (
	diagRequestSize = 56
	diagAnswerSize  = 72

	diagRequestPort = 8

	diagAnswerPort      = 4
	diagAnswerSource    = 8
	diagAnswerInterface = 40
	diagAnswerUID       = 64
	diagAnswerInode     = 68

	tcpListen = 10
)

// diagAttempts is how often a dump is repeated that changed under way.
const diagAttempts = 5

var errDumpInterrupted = errors.New("sockets changed during the dump")

// diagListeners asks the kernel for the sockets that listen on a TCP port.
func diagListeners(port uint16) ([]Listener, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("sock_diag: %w", typed(err))
	}
	defer unix.Close(fd)
	// The kernel answers at once; this bounds what can't happen.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2}); err != nil {
		return nil, fmt.Errorf("sock_diag: %w", err)
	}
	var all []Listener
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		var found []Listener
		for range diagAttempts {
			if found, err = diagDump(fd, family, port); !errors.Is(err, errDumpInterrupted) {
				break
			}
		}
		if errors.Is(err, unix.ENOENT) && family == unix.AF_INET6 {
			continue // a kernel without IPv6
		}
		// What an interrupted dump has found is there.
		if err != nil && !errors.Is(err, errDumpInterrupted) {
			return nil, fmt.Errorf("sock_diag: %w", typed(err))
		}
		all = append(all, found...)
	}
	return all, nil
}

func diagDump(fd int, family uint8, port uint16) ([]Listener, error) {
	request := make([]byte, unix.NLMSG_HDRLEN+diagRequestSize)
	binary.NativeEndian.PutUint32(request[0:], uint32(len(request)))
	binary.NativeEndian.PutUint16(request[4:], unix.SOCK_DIAG_BY_FAMILY)
	binary.NativeEndian.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	body := request[unix.NLMSG_HDRLEN:]
	body[0], body[1] = family, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(body[4:], 1<<tcpListen)
	binary.BigEndian.PutUint16(body[diagRequestPort:], port)
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	var all []Listener
	interrupted := false
	buf := make([]byte, 32<<10)
	for {
		n, err := retry(func() (int, error) {
			n, _, err := unix.Recvfrom(fd, buf, 0)
			return n, err
		})
		if err != nil {
			return nil, err
		}
		messages, err := syscall.ParseNetlinkMessage(buf[:n])
		if err != nil {
			return nil, fmt.Errorf("malformed answer: %w", err)
		}
		for _, m := range messages {
			interrupted = interrupted || m.Header.Flags&unix.NLM_F_DUMP_INTR != 0
			switch m.Header.Type {
			case unix.NLMSG_DONE:
				if interrupted {
					return all, errDumpInterrupted
				}
				return all, nil
			case unix.NLMSG_ERROR:
				if len(m.Data) < 4 {
					return nil, errors.New("malformed answer: short error")
				}
				return nil, unix.Errno(-int32(binary.NativeEndian.Uint32(m.Data)))
			case unix.SOCK_DIAG_BY_FAMILY:
				l, ok := parseDiag(m.Data)
				if ok && l.Addr.Port() == port {
					all = append(all, l)
				}
			}
		}
	}
}

// parseDiag reads one answer.
func parseDiag(b []byte) (Listener, bool) {
	if len(b) < diagAnswerSize {
		return Listener{}, false
	}
	l := Listener{
		UID:   int(binary.NativeEndian.Uint32(b[diagAnswerUID:])),
		Inode: uint64(binary.NativeEndian.Uint32(b[diagAnswerInode:])),
	}
	var addr netip.Addr
	source := b[diagAnswerSource:]
	switch b[0] {
	case unix.AF_INET:
		l.Network = "tcp4"
		addr = netip.AddrFrom4([4]byte(source[:4]))
	case unix.AF_INET6:
		l.Network = "tcp6"
		addr = netip.AddrFrom16([16]byte(source[:16]))
		if index := binary.NativeEndian.Uint32(b[diagAnswerInterface:]); index != 0 && addr.IsLinkLocalUnicast() {
			addr = addr.WithZone(strconv.FormatUint(uint64(index), 10))
		}
	default:
		return Listener{}, false
	}
	l.Addr = netip.AddrPortFrom(addr, binary.BigEndian.Uint16(b[diagAnswerPort:]))
	return l, true
}

// procNetListeners reads the listening sockets from /proc/net. The kernel gives
// the list a page at a time and goes on by number (tcp_seek_last_pos in
// net/ipv4/tcp_ipv4.c): of sockets that come and go meanwhile others are passed
// over, or come twice. So it is read until it has nothing new.
func procNetListeners(port uint16) ([]Listener, error) {
	var all []Listener
	for attempt := range diagAttempts {
		read, err := readProcNet(port)
		if err != nil {
			return nil, err
		}
		before := len(all)
		for _, l := range read {
			if !slices.Contains(all, l) {
				all = append(all, l)
			}
		}
		if attempt > 0 && len(all) == before {
			break
		}
	}
	return all, nil
}

func readProcNet(port uint16) ([]Listener, error) {
	var all []Listener
	for _, network := range []string{"tcp4", "tcp6"} {
		text, err := os.ReadFile("/proc/net/" + strings.TrimSuffix(network, "4"))
		if errors.Is(err, os.ErrNotExist) && network == "tcp6" {
			continue
		}
		if err != nil {
			return nil, err
		}
		for line := range bytes.Lines(text) {
			if l, ok := parseProcNet(network, string(line)); ok && l.Addr.Port() == port {
				all = append(all, l)
			}
		}
	}
	return all, nil
}

// parseProcNet reads a line of /proc/net/tcp or tcp6 if it is of a listening
// socket. An address is the hexadecimal of native words, then a colon and the
// port.
func parseProcNet(network, line string) (Listener, bool) {
	const local, state, uid, inode = 1, 3, 7, 9
	fields := strings.Fields(line)
	if len(fields) <= inode || fields[state] != "0A" {
		return Listener{}, false
	}
	hexAddr, hexPort, ok := strings.Cut(fields[local], ":")
	if !ok || len(hexAddr) != 8 && len(hexAddr) != 32 {
		return Listener{}, false
	}
	raw := make([]byte, 0, 16)
	for ; hexAddr != ""; hexAddr = hexAddr[8:] {
		word, err := strconv.ParseUint(hexAddr[:8], 16, 32)
		if err != nil {
			return Listener{}, false
		}
		raw = binary.NativeEndian.AppendUint32(raw, uint32(word))
	}
	addr, ok := netip.AddrFromSlice(raw)
	port, portErr := strconv.ParseUint(hexPort, 16, 16)
	owner, ownerErr := strconv.Atoi(fields[uid])
	number, inodeErr := strconv.ParseUint(fields[inode], 10, 64)
	if !ok || portErr != nil || ownerErr != nil || inodeErr != nil {
		return Listener{}, false
	}
	return Listener{
		Network: network,
		Addr:    netip.AddrPortFrom(addr, uint16(port)),
		UID:     owner,
		Inode:   number,
	}, true
}
