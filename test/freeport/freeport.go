// Package freeport gives tests the ports that what they start is to listen on.
package freeport

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// Ports are given from below the range of which kernels give ports to clients and
// to whoever leaves the choice to them: those are taken at any time.
const first, last = 20000, 32000

// held are the ports that were given, by number. Each is held with a UDP socket,
// so that a test of another process that runs beside this one gets others.
var held = struct {
	sync.Mutex
	ports map[int]net.PacketConn
}{ports: make(map[int]net.PacketConn)}

// Take returns n TCP ports of 127.0.0.1 that were free a moment ago and that no
// other test gets as long as this process lives. Without as many it ends the test.
func Take(t testing.TB, n int) []int {
	t.Helper()
	held.Lock()
	defer held.Unlock()
	start := rand.IntN(last - first + 1)
	var ports []int
	for i := range last - first + 1 {
		port := first + (start+i)%(last-first+1)
		if len(ports) < n && hold(port) {
			ports = append(ports, port)
		}
	}
	if len(ports) < n {
		t.Fatalf("of %d ports only %v are free", n, ports)
	}
	return ports
}

// hold takes a port if it is free. The lock is held.
func hold(port int) bool {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if held.ports[port] != nil || !Free(port) {
		return false
	}
	socket, err := net.ListenPacket("udp", address)
	if err != nil {
		return false
	}
	held.ports[port] = socket
	return true
}

// Free tells whether nobody listens on a TCP port of 127.0.0.1.
func Free(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	_ = listener.Close()
	return true
}
