package probes

import (
	"encoding/binary"
	"net/netip"
)

// Where things are in the struct socket_fdinfo that proc_pidfdinfo of macOS
// writes for a socket, on 64 bits: struct proc_fileinfo (24 bytes), then struct
// socket_info, whose last part is a union that for TCP is a struct
// tcp_sockinfo. See <sys/proc_info.h>.
const (
	socketInfoSize     = 792
	socketHandleAt     = 160 // soi_so, a scrambled address that is the socket's own
	socketProtocolAt   = 180 // soi_protocol
	socketFamilyAt     = 184 // soi_family
	socketKindAt       = 256 // soi_kind
	socketLocalPortAt  = 268 // insi_lport, an int whose first two bytes hold it as the network does
	socketLocalAddr6At = 312 // insi_laddr
	socketLocalAddr4At = 324 // the last 4 bytes of the same
	socketTCPStateAt   = 344 // tcpsi_state
)

// Values of the fields.
const (
	socketKindTCP     = 2  // SOCKINFO_TCP
	socketStateListen = 1  // TSI_S_LISTEN
	socketFamilyIPv4  = 2  // AF_INET
	socketFamilyIPv6  = 30 // AF_INET6 of macOS
	socketProtocolTCP = 6  // IPPROTO_TCP
)

// parseSocketInfo reads a struct socket_fdinfo of a machine with the low byte
// first, which all that run macOS are. It is false unless the socket is a TCP
// one that listens.
func parseSocketInfo(b []byte) (Listener, bool) {
	if len(b) != socketInfoSize {
		return Listener{}, false
	}
	field := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	if field(socketKindAt) != socketKindTCP || field(socketProtocolAt) != socketProtocolTCP || field(socketTCPStateAt) != socketStateListen {
		return Listener{}, false
	}
	l := Listener{Inode: binary.LittleEndian.Uint64(b[socketHandleAt:]), UID: -1}
	port := binary.BigEndian.Uint16(b[socketLocalPortAt:])
	switch field(socketFamilyAt) {
	case socketFamilyIPv4:
		l.Network = "tcp4"
		l.Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[socketLocalAddr4At:])), port)
	case socketFamilyIPv6:
		l.Network = "tcp6"
		l.Addr = netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[socketLocalAddr6At:])), port)
	default:
		return Listener{}, false
	}
	return l, port != 0
}
