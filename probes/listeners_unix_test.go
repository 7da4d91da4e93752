//go:build linux || darwin || freebsd

package probes

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
)

func holders(found []Listener) []int {
	var all []int
	for _, l := range found {
		all = append(all, l.PID)
	}
	slices.Sort(all)
	return all
}

func TestListeners(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		addr, network string
		want          netip.Addr
	}{
		{"127.0.0.1:0", "tcp4", netip.MustParseAddr("127.0.0.1")},
		{"0.0.0.0:0", "tcp4", netip.IPv4Unspecified()},
		{"[::1]:0", "tcp6", netip.IPv6Loopback()},
		{"[::]:0", "tcp6", netip.IPv6Unspecified()},
	} {
		if tt.network == "tcp6" {
			l, err := net.Listen("tcp6", "[::1]:0")
			if err != nil {
				t.Logf("no IPv6: %v", err)
				continue
			}
			_ = l.Close()
		}
		h := start(t, "listen", tt.network+" "+tt.addr)
		port := h.numbers[0]
		found, err := Listeners(t.Context(), port)
		found = slices.DeleteFunc(found, func(l Listener) bool { return l.Addr.Addr() != tt.want })
		if err != nil || len(found) != 1 {
			t.Errorf("%s: %+v, %v", tt.addr, found, err)
			continue
		}
		l := found[0]
		if l.Network != tt.network || l.Addr != netip.AddrPortFrom(tt.want, uint16(port)) || l.PID != h.pid() ||
			l.Command != selfExe || l.UID != os.Geteuid() || (l.Inode != 0) != (runtime.GOOS != "freebsd") || l.Reason != "" {
			t.Errorf("%s: %+v", tt.addr, l)
		}
	}
}

func TestListenersSeveral(t *testing.T) {
	t.Parallel()
	h := start(t, "listen-two", "127.0.0.1:0")
	port, second := h.numbers[0], h.numbers[1]
	want := []int{h.pid(), second}
	slices.Sort(want)
	found, err := Listeners(t.Context(), port)
	if got := holders(found); err != nil || !slices.Equal(got, want) {
		t.Errorf("holders are %v, %v, want %v", got, err, want)
	}
	// A hint that holds it is enough.
	found, err = Listeners(t.Context(), port, -1, 0, second, maxPID, second)
	if got := holders(found); err != nil || !slices.Equal(got, []int{second}) {
		t.Errorf("holders are %v, %v, want %d", got, err, second)
	}
	// One that does not hold it is none.
	found, err = Listeners(t.Context(), port, os.Getpid())
	if got := holders(found); err != nil || !slices.Equal(got, want) {
		t.Errorf("holders are %v, %v, want %v", got, err, want)
	}
}

func TestListenersOwn(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	found, err := Listeners(t.Context(), port)
	if got := holders(found); err != nil || !slices.Equal(got, []int{os.Getpid()}) {
		t.Errorf("holders are %v, %v", got, err)
	}
	// A connection to it is no listener, nor is it once it is closed.
	c, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	local := c.LocalAddr().(*net.TCPAddr).Port
	if found, err := Listeners(t.Context(), local); err != nil || len(found) != 0 {
		t.Errorf("on the port of a connection: %+v, %v", found, err)
	}
	_ = l.Close()
	if found, err := Listeners(t.Context(), port); err != nil || len(found) != 0 {
		t.Errorf("after Close: %+v, %v", found, err)
	}
}

func TestListenersRefuses(t *testing.T) {
	t.Parallel()
	for _, port := range []int{-1, 0, 65536} {
		if _, err := Listeners(t.Context(), port); err == nil {
			t.Errorf("Listeners takes port %d", port)
		}
	}
	h := start(t, "listen", "tcp4 127.0.0.1:0")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Listeners(ctx, h.numbers[0]); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

func TestListenersWithoutPrivileges(t *testing.T) {
	t.Parallel()
	needRoot(t)
	want := "pid 0, uid 0, reason true\n"
	switch runtime.GOOS {
	case "darwin":
		want = "pid 0, uid -1, reason true\n"
	case "freebsd":
		t.Skip("it shows everybody's sockets to everybody, unless it is told not to")
	}
	h := start(t, "listen", "tcp4 127.0.0.1:0")
	cmd := self("listeners", strconv.Itoa(h.numbers[0]), nil)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54321, Gid: 54321}}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("%v: %s", err, exit.Stderr)
	}
	if got := string(out); got != want {
		t.Errorf("it sees %q, want %q", got, want)
	}
}
