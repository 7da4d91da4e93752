package probes

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
)

// tcpTableOwnerPIDListener selects, with GetExtendedTcpTable, the sockets that
// listen, each with the pid of the process that opened it.
const tcpTableOwnerPIDListener = 3

// tcpRow is how a table is laid out: first the number of rows, then the rows,
// all in 32 bits.
type tcpRow struct {
	network string
	family  uint32
	size    int // of a row
	addrAt  int
	addrLen int
	portAt  int // in network order, in the first two bytes
	pidAt   int
}

var (
	tcp4Row = tcpRow{network: "tcp4", family: windows.AF_INET, size: 24, addrAt: 4, addrLen: 4, portAt: 8, pidAt: 20}
	tcp6Row = tcpRow{network: "tcp6", family: windows.AF_INET6, size: 56, addrAt: 0, addrLen: 16, portAt: 20, pidAt: 52}
)

// owned is a socket that listens and the pid of its owner as the table has it.
type owned struct {
	network string
	addr    netip.AddrPort
	pid     int
}

// listeners takes the owners from the system's table. The table names the
// process that opened a socket, even when it has exited and another one, which
// inherited the socket, goes on with it. No hints are needed.
func listeners(ctx context.Context, port uint16, _ []int) ([]Listener, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	sockets, err := listening(port)
	if err != nil {
		return nil, err
	}
	var all []Listener
	for _, socket := range sockets {
		l, err := nameOwner(socket)
		if err != nil {
			return nil, err
		}
		if l != nil {
			all = append(all, *l)
		}
	}
	return all, nil
}

// nameOwner describes the owner of a socket. It holds the owner while it looks
// whether that is still the owner, since a pid alone may be another's by then.
// It returns nothing if the socket is gone.
func nameOwner(socket owned) (*Listener, error) {
	l := &Listener{Network: socket.network, Addr: socket.addr, UID: -1}
	if socket.pid == 0 {
		l.Reason = "the system does not say who holds the socket"
		return l, nil
	}
	p, err := hold(socket.pid)
	var info Info
	if err == nil {
		defer p.Close()
		info, err = p.Info()
	}
	sockets, tableErr := listening(socket.addr.Port())
	if tableErr != nil {
		return nil, tableErr
	}
	if !slices.Contains(sockets, socket) {
		return nil, nil
	}
	switch {
	case err == nil:
		l.PID, l.User, l.Command = socket.pid, info.User, info.Command
		if len(info.Args) > 0 {
			l.Command = strings.Join(info.Args, " ")
		}
	case errors.Is(err, ErrGone):
		l.Reason = fmt.Sprintf("process %d, which opened the socket, is gone; another one inherited it", socket.pid)
	default:
		l.PID, l.Reason = socket.pid, "the holder can't be described: "+err.Error()
	}
	return l, nil
}

// listening returns the sockets that listen on a port.
func listening(port uint16) ([]owned, error) {
	var all []owned
	for _, row := range []tcpRow{tcp4Row, tcp6Row} {
		table, err := readTCPTable(row.family)
		if err != nil {
			return nil, fmt.Errorf("listeners on port %d: %w", port, err)
		}
		all = append(all, row.parse(table, port)...)
	}
	slices.SortFunc(all, func(a, b owned) int {
		return cmp.Or(cmp.Compare(a.network, b.network), a.addr.Compare(b.addr), cmp.Compare(a.pid, b.pid))
	})
	return slices.Compact(all), nil
}

// parse takes those rows out of a table that are of the port. Zones of
// addresses are left out.
func (row tcpRow) parse(table []byte, port uint16) []owned {
	const countLen = 4
	if len(table) < countLen {
		return nil
	}
	rows := table[countLen:]
	n := min(int(binary.NativeEndian.Uint32(table)), len(rows)/row.size)
	var all []owned
	for i := range n {
		r := rows[i*row.size:][:row.size]
		if binary.BigEndian.Uint16(r[row.portAt:]) != port {
			continue
		}
		addr, _ := netip.AddrFromSlice(r[row.addrAt:][:row.addrLen])
		all = append(all, owned{
			network: row.network,
			addr:    netip.AddrPortFrom(addr, port),
			pid:     int(binary.NativeEndian.Uint32(r[row.pidAt:])),
		})
	}
	return all
}

// readTCPTable returns a table of the sockets that listen.
func readTCPTable(family uint32) ([]byte, error) {
	if err := procGetExtendedTCPTable.Find(); err != nil {
		return nil, fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	size := uint32(16 << 10)
	for {
		buf := make([]byte, size)
		code, _, _ := procGetExtendedTCPTable.Call(uintptr(unsafe.Pointer(&buf[0])), uintptr(unsafe.Pointer(&size)),
			0, uintptr(family), tcpTableOwnerPIDListener, 0)
		switch err := windows.Errno(code); err {
		case windows.ERROR_SUCCESS:
			return buf, nil
		case windows.ERROR_INSUFFICIENT_BUFFER:
			size = max(size, uint32(len(buf))) + 4<<10 // it may grow meanwhile
		default:
			return nil, fmt.Errorf("GetExtendedTcpTable: %w", typed(err))
		}
	}
}
