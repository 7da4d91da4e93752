package probes

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/plughost/plughost/test/freeport"
)

// Both ways to ask for the sockets give the same.
func TestProcNetListeners(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Logf("%s: %v", addr, err)
			continue
		}
		defer l.Close()
		port := uint16(l.Addr().(*net.TCPAddr).Port)
		diag, err := diagListeners(port)
		if err != nil {
			t.Skipf("no sock_diag: %v", err)
		}
		text, err := procNetListeners(port)
		if err != nil || len(diag) == 0 || !slices.Equal(diag, text) {
			t.Errorf("sock_diag has %+v, /proc/net has %+v, %v", diag, text, err)
		}
	}
}

// The kernel's lists are read in pieces, between which sockets come and go.
func TestListenerIsFoundOnceWhileOthersComeAndGo(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	ctx, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	for some := range slices.Chunk(freeport.Take(t, 100), 50) {
		others.Go(func() {
			for ctx.Err() == nil {
				var open []net.Listener
				for _, port := range some {
					if other, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
						open = append(open, other)
					}
				}
				for _, other := range open {
					_ = other.Close()
				}
			}
		})
	}
	for name, ask := range map[string]func(uint16) ([]Listener, error){"sock_diag": diagListeners, "/proc/net": procNetListeners} {
		for range 40 {
			if found, err := ask(port); err != nil || len(found) != 1 {
				t.Fatalf("%s has %+v, %v", name, found, err)
			}
		}
	}
}

func FuzzParseProcNet(f *testing.F) {
	f.Add("   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 0 100 0 0 10 0")
	f.Add("   0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 0:0 0:0 0 33 0 99 1 0")
	f.Fuzz(func(t *testing.T, line string) {
		for _, network := range []string{"tcp4", "tcp6"} {
			if l, ok := parseProcNet(network, line); ok && !l.Addr.IsValid() {
				t.Errorf("%q: %+v", line, l)
			}
		}
	})
}

func FuzzParseDiag(f *testing.F) {
	b := make([]byte, diagAnswerSize)
	b[0] = unix.AF_INET6
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if l, ok := parseDiag(b); ok && (!l.Addr.IsValid() || !strings.HasPrefix(l.Network, "tcp")) {
			t.Errorf("%x: %+v", b, l)
		}
	})
}

func TestSocketInode(t *testing.T) {
	t.Parallel()
	for link, want := range map[string]uint64{
		"socket:[4711]": 4711, "socket:[]": 0, "socket:[1": 0, "socket:[1x]": 0, "pipe:[1]": 0, "": 0, "]": 0,
	} {
		if got, ok := socketInode([]byte(link)); got != want || ok != (want != 0) {
			t.Errorf("%q: %d, %t", link, got, ok)
		}
	}
}
