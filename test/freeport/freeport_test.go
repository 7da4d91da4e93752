package freeport

import (
	"net"
	"strconv"
	"testing"
)

func TestNoPortIsGivenTwice(t *testing.T) {
	given := make(map[int]bool)
	for range 10 {
		for _, port := range Take(t, 10) {
			if given[port] {
				t.Errorf("%d was given before", port)
			}
			given[port] = true
		}
	}
	if len(given) != 100 {
		t.Errorf("%d ports were given, want 100", len(given))
	}
}

func TestAPortThatIsTakenIsNotGiven(t *testing.T) {
	port := Take(t, 1)[0]
	if hold(port) {
		t.Errorf("%d is held twice", port)
	}
	held.Lock()
	holder := held.ports[port]
	delete(held.ports, port)
	held.Unlock()
	if hold(port) {
		t.Errorf("%d, which another process holds, was given", port)
	}
	_ = holder.Close()
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if hold(port) {
		t.Errorf("%d, on which somebody listens, was given", port)
	}
}
