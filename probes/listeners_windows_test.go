package probes

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/plughost/plughost/shared/marker"
)

func TestListeners(t *testing.T) {
	t.Parallel()
	for network, addr := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			h := start(t, marker.Identity{}, "listen", addr)
			port := h.numbers[0]
			all, err := Listeners(t.Context(), port)
			want := netip.MustParseAddrPort(strings.TrimSuffix(addr, "0") + "1").Addr()
			if err != nil || len(all) != 1 || all[0].Network != network ||
				all[0].Addr != netip.AddrPortFrom(want, uint16(port)) {
				t.Fatalf("Listeners = %+v, %v", all, err)
			}
			t.Run("owner", func(t *testing.T) {
				unlessWine(t, "does not say who holds a socket")
				if l := all[0]; l.PID != h.pid() || l.Command == "" || l.User == "" || l.Reason != "" {
					t.Errorf("%+v", l)
				}
			})
			h.kill()
			if all, err := Listeners(t.Context(), port); err != nil || len(all) != 0 {
				t.Errorf("after the exit: %+v, %v", all, err)
			}
		})
	}
}

func TestNameOwner(t *testing.T) {
	t.Parallel()
	if l, err := nameOwner(owned{network: "tcp4", addr: netip.MustParseAddrPort("127.0.0.1:1"), pid: 0x7ffffffc}); l != nil || err != nil {
		t.Errorf("a socket that is gone: %+v, %v", l, err)
	}
	l, err := nameOwner(owned{network: "tcp4", addr: netip.MustParseAddrPort("127.0.0.1:1")})
	if err != nil || l == nil || l.PID != 0 || l.Reason == "" {
		t.Errorf("a socket without an owner: %+v, %v", l, err)
	}
}

func TestParseTCPTable(t *testing.T) {
	t.Parallel()
	u32 := binary.NativeEndian.AppendUint32
	var row4 []byte
	row4 = u32(row4, 2) // LISTEN
	row4 = append(row4, 127, 0, 0, 1)
	row4 = append(row4, 0x1f, 0xa4, 0xff, 0xff) // port 8100, and noise
	row4 = u32(u32(row4, 0), 0)
	row4 = u32(row4, 4711)
	table := append(u32(nil, 1), row4...)
	want := []owned{{"tcp4", netip.MustParseAddrPort("127.0.0.1:8100"), 4711}}
	if got := tcp4Row.parse(table, 8100); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if got := tcp4Row.parse(table, 8101); got != nil {
		t.Errorf("%+v", got)
	}
	// More rows claimed than there are, and a table cut short.
	lying := append(u32(nil, 1<<30), row4...)
	if got := tcp4Row.parse(lying, 8100); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	for n := range len(table) {
		if got := tcp4Row.parse(table[:n], 8100); got != nil {
			t.Errorf("%d bytes: %+v", n, got)
		}
	}

	row6 := netip.MustParseAddr("fe80::1").AsSlice()
	row6 = u32(row6, 3)
	row6 = append(row6, 0x1f, 0xa4, 0, 0)
	row6 = append(row6, make([]byte, 24)...)
	row6 = u32(u32(row6, 2), 4711)
	want = []owned{{"tcp6", netip.MustParseAddrPort("[fe80::1]:8100"), 4711}}
	if got := tcp6Row.parse(append(u32(nil, 1), row6...), 8100); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}
