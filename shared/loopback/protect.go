// Package loopback guards HTTP servers that listen on a loopback address
// against web pages: a browser on the same machine will send them requests
// for any site that asks it to, by a cross-origin request or by a name that
// was rebound to 127.0.0.1.
package loopback

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Protect answers 403 to each request whose Host is not a loopback name, and
// to each whose Origin, if it has one, is not. All methods are checked.
func Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !IsLocalHost(r.Host) {
			http.Error(w, "forbidden: the Host header names no loopback address", http.StatusForbidden)
			return
		}
		if !allowedOrigins(r.Header.Values("Origin")) {
			http.Error(w, "forbidden: the Origin header names no loopback address", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// IsLocalHost reports whether hostport, a host with or without a port, is
// "localhost" or a loopback IP address.
func IsLocalHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// allowedOrigins accepts no Origin at all, as programs send, or exactly one
// that a page served from this machine has.
func allowedOrigins(origins []string) bool {
	switch len(origins) {
	case 0:
		return true
	case 1:
		return IsLocalOrigin(origins[0])
	default:
		return false
	}
}

// IsLocalOrigin reports whether an Origin is that of a page which was served by
// this machine.
func IsLocalOrigin(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && IsLocalHost(u.Host)
}
