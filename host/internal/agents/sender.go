package agents

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
)

// sender sends notifications. It follows no redirects and uses no proxy, which
// would both lead to where nobody has looked.
type sender struct{ client *http.Client }

// newSender makes a sender that connects to those addresses alone that check,
// if it is not nil, lets pass, whatever their names are said to mean.
func newSender(check func(netip.Addr) error) sender {
	dialer := &net.Dialer{Timeout: pushTimeout}
	if check != nil {
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			return check(at.Addr())
		}
	}
	return sender{&http.Client{
		Transport: &http.Transport{
			DialContext:         dialer.DialContext,
			TLSHandshakeTimeout: pushTimeout,
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: 1,
			IdleConnTimeout:     pushTimeout,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// errNotPublic is the error of an address that a pattern does not stand for.
var errNotPublic = errors.New("the address is not a public one")

// notPublic are the networks that IANA's registries of special-purpose
// addresses keep from the public, besides those that package netip knows, and
// those in which an IPv4 address can be hidden.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("::/96"),
	netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("100::/64"),
	netip.MustParsePrefix("2001::/23"),
	netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("fec0::/10"),
}

// publicOnly lets public addresses pass.
func publicOnly(addr netip.Addr) error {
	addr = addr.Unmap().WithZone("")
	if !addr.IsGlobalUnicast() || addr.IsPrivate() ||
		slices.ContainsFunc(notPublic, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return fmt.Errorf("%w: %s", errNotPublic, addr)
	}
	return nil
}
