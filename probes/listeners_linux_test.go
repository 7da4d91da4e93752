package probes

import (
	"net"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
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
