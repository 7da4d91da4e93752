package plugincheck

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	psnet "github.com/shirou/gopsutil/v4/net"

	"github.com/plughost/plughost/host/internal/launch"
)

// port looks at what the plugin listens on.
func (c *checker) port(instance *launch.Instance) {
	const check = "port"
	listening, err := listeners(instance.PID())
	if err != nil {
		c.add(check, Skipped, "what a process listens on cannot be read here: "+err.Error(), "")
		return
	}
	given := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(c.opts.Port))
	others := slices.DeleteFunc(slices.Clone(listening), func(at netip.AddrPort) bool { return at == given })
	switch {
	case len(others) > 0:
		c.add(check, Failed, "it listens on "+joined(others), fmt.Sprintf("listen on 127.0.0.1 and the port that PLUGHOST_PORT names (%d here), and nowhere else", c.opts.Port))
	case c.opts.Port == 0:
		c.add(check, Skipped, "it was given none, and listens on none", "")
	case len(listening) == 0:
		c.add(check, Warning, "it was given a port, and does not listen on it", "serve the protocol over HTTP on 127.0.0.1 and the port that PLUGHOST_PORT names; or say in your documentation that services have none")
	default:
		c.add(check, Good, "it listens on the port that it was given, on 127.0.0.1 alone", "")
	}
}

// listeners are the TCP addresses that a process listens on.
func listeners(pid int) ([]netip.AddrPort, error) {
	connections, err := psnet.ConnectionsPid("tcp", int32(pid))
	if err != nil {
		return nil, err
	}
	var found []netip.AddrPort
	for _, connection := range connections {
		if connection.Status != "LISTEN" {
			continue
		}
		address, err := netip.ParseAddr(connection.Laddr.IP)
		if err != nil {
			return nil, err
		}
		found = append(found, netip.AddrPortFrom(address.Unmap(), uint16(connection.Laddr.Port)))
	}
	return found, nil
}

func joined(list []netip.AddrPort) string {
	words := make([]string, len(list))
	for i, address := range list {
		words[i] = address.String()
	}
	return strings.Join(words, ", ")
}
