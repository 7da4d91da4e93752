package probes

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"unsafe"
)

// The structures of <sys/proc_info.h>, in Go's words. On 64 bits Go lays them
// out as C does, so they prove the offsets that the parser has.
type (
	cFileInfo struct {
		openFlags, status uint32
		offset            int64
		kind              int32
		guardFlags        uint32
	}
	cStat struct {
		dev         uint32
		mode, nlink uint16
		ino         uint64
		uid, gid    uint32
		times       [8]int64
		size        int64
		blocks      int64
		blockSize   int32
		flags       uint32
		gen         uint32
		rdev        uint32
		spare       [2]int64
	}
	cSockbuf struct {
		cc, hiwat, mbcnt, mbmax, lowat uint32
		flags, timeo                   int16
	}
	cInet struct {
		foreignPort, localPort int32
		generation             uint64
		flags, flow            uint32
		version, ttl           uint8
		_                      uint32
		foreign, local         [16]byte
		v4                     struct{ tos uint8 }
		v6                     struct {
			hlim    uint8
			cksum   int32
			ifindex uint16
			hops    int16
		}
	}
	cTCP struct {
		inet  cInet
		state int32
		timer [4]int32
		mss   int32
		flags uint32
		_     uint32
		tp    uint64
	}
	cSocket struct {
		stat                                  cStat
		so, pcb                               uint64
		kind, protocol, family                int32
		options, linger, state, qlen, incqlen int16
		qlimit, timeo                         int16
		err                                   uint16
		oobmark                               uint32
		rcv, snd                              cSockbuf
		infoKind                              int32
		_                                     uint32
		proto                                 struct {
			tcp cTCP
			_   [528 - unsafe.Sizeof(cTCP{})]byte // struct un_sockinfo is the largest of the union
		}
	}
	cSocketFD struct {
		file   cFileInfo
		socket cSocket
	}
)

// tcpSocket makes what the kernel says of a listening socket.
func tcpSocket(addr netip.AddrPort) cSocketFD {
	var s cSocketFD
	s.socket.so = 0xfeedface12345678
	s.socket.protocol, s.socket.infoKind = 6, 2
	s.socket.family = 30
	s.socket.proto.tcp.state = 1
	port := addr.Port()
	s.socket.proto.tcp.inet.localPort = int32(port>>8 | port<<8&0xff00)
	if addr.Addr().Is4() {
		s.socket.family = 2
		ip := addr.Addr().As4()
		copy(s.socket.proto.tcp.inet.local[12:], ip[:])
	} else {
		s.socket.proto.tcp.inet.local = addr.Addr().As16()
	}
	return s
}

func (s cSocketFD) bytes() []byte {
	b := unsafe.Slice((*byte)(unsafe.Pointer(&s)), unsafe.Sizeof(s))
	return append([]byte(nil), b...)
}

func needSameLayout(t *testing.T) {
	t.Helper()
	if unsafe.Sizeof(uintptr(0)) != 8 || binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("the layout is that of a 64-bit machine with the low byte first")
	}
}

func TestParseSocketInfo(t *testing.T) {
	t.Parallel()
	needSameLayout(t)
	if size := unsafe.Sizeof(cSocketFD{}); size != socketInfoSize {
		t.Fatalf("the structure has %d bytes", size)
	}
	for _, text := range []string{"127.0.0.1:8101", "0.0.0.0:1", "[::1]:8101", "[::]:65535", "[fe80::1:2:3:4]:256"} {
		addr := netip.MustParseAddrPort(text)
		s := tcpSocket(addr)
		network := "tcp6"
		if addr.Addr().Is4() {
			network = "tcp4"
		}
		want := Listener{Network: network, Addr: addr, UID: -1, Inode: 0xfeedface12345678}
		if got, ok := parseSocketInfo(s.bytes()); !ok || got != want {
			t.Errorf("%s: %+v, %t", text, got, ok)
		}
	}
	good := tcpSocket(netip.MustParseAddrPort("127.0.0.1:80"))
	for name, change := range map[string]func(*cSocketFD){
		"established":    func(s *cSocketFD) { s.socket.proto.tcp.state = 4 },
		"closed":         func(s *cSocketFD) { s.socket.proto.tcp.state = 0 },
		"no TCP":         func(s *cSocketFD) { s.socket.infoKind = 1 },
		"MPTCP or so":    func(s *cSocketFD) { s.socket.protocol = 17 },
		"another family": func(s *cSocketFD) { s.socket.family = 1 },
		"port 0":         func(s *cSocketFD) { s.socket.proto.tcp.inet.localPort = 0 },
	} {
		s := good
		change(&s)
		if got, ok := parseSocketInfo(s.bytes()); ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
	b := good.bytes()
	for _, size := range []int{0, 1, 344, len(b) - 1} {
		if got, ok := parseSocketInfo(b[:size]); ok {
			t.Errorf("%d bytes: %+v", size, got)
		}
	}
}

func FuzzParseSocketInfo(f *testing.F) {
	s := tcpSocket(netip.MustParseAddrPort("[::1]:80"))
	f.Add(s.bytes())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if l, ok := parseSocketInfo(b); ok && (!l.Addr.IsValid() || l.Addr.Port() == 0) {
			t.Errorf("%x: %+v", b, l)
		}
	})
}
