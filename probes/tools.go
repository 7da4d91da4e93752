package probes

import (
	"net/netip"
	"strconv"
	"strings"
)

// The parsers of what the systems' own tools print about listening sockets, for
// where the kernel can't be asked directly. They pass over whatever they do
// not understand: a listener that is missed is looked for in other ways, one
// that is made up would accuse a stranger.

// heldSocket is a listening socket and a process that holds it, as a tool
// names them.
type heldSocket struct {
	network string // "tcp4" or "tcp6"
	addr    netip.AddrPort
	pid     int // 0 if the tool does not know it
}

// parseLsof reads the output of lsof -F with the fields p (pid), f (descriptor),
// t (type), n (name) and T (state of TCP), one to a line: a line "p" begins a
// process, a line "f" one of its files.
//
//	p4711
//	f3
//	tIPv4
//	n127.0.0.1:8101
//	TST=LISTEN
func parseLsof(output string, port uint16) []heldSocket {
	var all []heldSocket
	var now heldSocket
	listens := false
	finish := func() {
		if listens && now.pid > 0 && now.network != "" && now.addr.IsValid() && now.addr.Port() == port {
			all = append(all, now)
		}
		now, listens = heldSocket{pid: now.pid}, false
	}
	name := ""
	for line := range strings.Lines(output) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			continue
		}
		value := line[1:]
		switch line[0] {
		case 'p':
			finish()
			now.pid, name = positive(value), ""
		case 'f':
			finish()
			name = ""
		case 't':
			switch value {
			case "IPv4":
				now.network = "tcp4"
			case "IPv6":
				now.network = "tcp6"
			}
		case 'n':
			name = value
		case 'T':
			listens = listens || value == "ST=LISTEN"
		}
		if now.network != "" && name != "" {
			now.addr, _ = toolAddr(now.network, name, ':')
		}
	}
	finish()
	return all
}

// parseNetstat reads the output of netstat -anl -p tcp of macOS: protocol, two
// queues, local and foreign address, state. It names no holders.
//
//	tcp4       0      0  127.0.0.1.8101         *.*                    LISTEN
func parseNetstat(output string, port uint16) []heldSocket {
	var all []heldSocket
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		if len(fields) < 6 || fields[5] != "LISTEN" {
			continue
		}
		s, ok := toolSocket(fields[0], fields[3], '.')
		if ok && s.addr.Port() == port {
			all = append(all, s)
		}
	}
	return all
}

// parseSockstat reads the output of sockstat -46lsw -P tcp of FreeBSD: user,
// command, pid, descriptor, protocol, local and foreign address, a column that
// is blank or has question marks for TCP, and the state. A command's name may
// have spaces, so the columns are counted from the right. For sockets without a
// holder, and for holders that are not shown, there are question marks too.
//
//	www      nginx      4711  6   tcp4   127.0.0.1:8101        *:*      ??  LISTEN
func parseSockstat(output string, port uint16) []heldSocket {
	var all []heldSocket
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[len(fields)-1] != "LISTEN" {
			continue
		}
		fields = fields[:len(fields)-1]
		if n := len(fields); n > 0 && fields[n-1] == "??" {
			fields = fields[:n-1]
		}
		if len(fields) < 7 {
			continue
		}
		fields = fields[len(fields)-5:]
		pid, fd, protocol, local, foreign := fields[0], fields[1], fields[2], fields[3], fields[4]
		s, ok := toolSocket(protocol, local, ':')
		if !ok || s.addr.Port() != port || foreign != "*:*" {
			continue
		}
		if s.pid = positive(pid); s.pid == 0 && !unshown(pid) || fd != "0" && positive(fd) == 0 && !unshown(fd) {
			continue
		}
		all = append(all, s)
	}
	return all
}

func unshown(text string) bool { return strings.Trim(text, "?") == "" }

// toolSocket reads a protocol and a local address. A socket for both versions
// of IP is one of IPv6.
func toolSocket(protocol, local string, sep byte) (heldSocket, bool) {
	var s heldSocket
	switch protocol {
	case "tcp4":
		s.network = "tcp4"
	case "tcp6", "tcp46":
		s.network = "tcp6"
	default:
		return s, false
	}
	var ok bool
	s.addr, ok = toolAddr(s.network, local, sep)
	return s, ok
}

// toolAddr reads an address with a port after the last separator; "*" is any
// address. Brackets around an address are taken off, and so is its zone.
func toolAddr(network, text string, sep byte) (netip.AddrPort, bool) {
	i := strings.LastIndexByte(text, sep)
	if i < 0 {
		return netip.AddrPort{}, false
	}
	port, err := strconv.ParseUint(text[i+1:], 10, 16)
	if err != nil || port == 0 {
		return netip.AddrPort{}, false
	}
	host := text[:i]
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(inner, "]"); !ok {
			return netip.AddrPort{}, false
		}
	}
	var addr netip.Addr
	switch {
	case host == "*" && network == "tcp4":
		addr = netip.IPv4Unspecified()
	case host == "*":
		addr = netip.IPv6Unspecified()
	default:
		addr, err = netip.ParseAddr(host)
		if err != nil {
			return netip.AddrPort{}, false
		}
		addr = addr.WithZone("")
	}
	// A socket of IPv6 may be bound to an address of IPv4.
	if addr.Is4() != (network == "tcp4") {
		addr = netip.AddrFrom16(addr.As16())
		if network == "tcp4" {
			return netip.AddrPort{}, false
		}
	}
	return netip.AddrPortFrom(addr, uint16(port)), true
}

// positive reads a positive decimal number; 0 is none.
func positive(text string) int {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n <= 0 || text[0] == '+' {
		return 0
	}
	return int(n)
}
