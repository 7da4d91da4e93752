//go:build !windows

package launch

// loopbackOnly says that plugins can only listen on loopback TCP.
const loopbackOnly = false
