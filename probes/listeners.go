package probes

import (
	"context"
	"fmt"
	"net/netip"
)

// Listener is a TCP socket that listens on a port, and one process that holds
// it.
type Listener struct {
	Network string         `json:"network"` // "tcp4" or "tcp6"; the wildcard of tcp6 may take IPv4 as well
	Addr    netip.AddrPort `json:"addr"`
	// PID is the holder, 0 if there is one that the caller can't see; Reason
	// then says why.
	PID     int    `json:"pid,omitempty"`
	Command string `json:"command,omitempty"` // command line of the holder, or its short name
	// UID and User are the owner of the holder, or of the socket if the holder
	// is not to be seen.
	UID    int    `json:"uid"`
	User   string `json:"user,omitempty"`
	Inode  uint64 `json:"inode"` // of the socket
	Reason string `json:"reason,omitempty"`
}

// Listeners returns who listens on a TCP port, in the caller's network
// namespace. A socket that several processes hold, as after a fork, is reported
// once for each of them.
//
// The file descriptors of the hinted pids are looked through first. If every
// socket has a holder among these, the search ends there, and holders beyond
// them are not reported. On Linux the processes that carry a marker come next,
// under the same condition; then all others. Hints that are no live processes are
// passed over.
//
// On Linux the sockets are asked from the kernel by sock_diag(7), or read from
// /proc/net if that is not available; the holders come from /proc/PID/fd. macOS
// is asked by libproc, or by lsof(8) if that fails its test, and by netstat(1)
// for what is not the caller's to see; FreeBSD by sockstat(1). On these two, UID
// is -1 if the holder is not to be seen; FreeBSD's Inode is 0. Windows is asked by
// GetExtendedTcpTable, which names the one process that opened the socket; UID is
// -1 and Inode 0.
func Listeners(ctx context.Context, port int, hints ...int) ([]Listener, error) {
	if port <= 0 || port > 65535 {
		return nil, fmt.Errorf("port %d is out of range", port)
	}
	return listeners(ctx, uint16(port), hints)
}
