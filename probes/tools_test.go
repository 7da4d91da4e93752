package probes

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func held(network, addr string, pid int) heldSocket {
	return heldSocket{network: network, addr: netip.MustParseAddrPort(addr), pid: pid}
}

func TestParseLsof(t *testing.T) {
	t.Parallel()
	const output = `p4711
cserver
u501
f3
tIPv4
PTCP
n127.0.0.1:8101
TST=LISTEN
TQR=0
f7
tIPv6
PTCP
n*:8101
TST=LISTEN
f9
tIPv4
n127.0.0.1:8101->127.0.0.1:50000
TST=ESTABLISHED
p815
f4
tIPv6
n[::1]:8101
TST=LISTEN
p816
f4
tIPv6
n[fe80:1::1%lo0]:8101
TST=LISTEN
p817
f5
tIPv4
n*:8102
TST=LISTEN
px
f5
tIPv4
n*:8101
TST=LISTEN
p818
f5
tunix
n/tmp/a:8101
TST=LISTEN
`
	want := []heldSocket{
		held("tcp4", "127.0.0.1:8101", 4711),
		held("tcp6", "[::]:8101", 4711),
		held("tcp6", "[::1]:8101", 815),
		held("tcp6", "[fe80:1::1]:8101", 816),
	}
	if got := parseLsof(output, 8101); !slices.Equal(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	// The fields of a file may come in another order.
	if got := parseLsof("p5\nf3\nTST=LISTEN\nn*:80\ntIPv4\n", 80); !slices.Equal(got, []heldSocket{held("tcp4", "0.0.0.0:80", 5)}) {
		t.Errorf("another order: %+v", got)
	}
	for _, nothing := range []string{"", "\n\n", "p1\n", "f1\nn*:80\ntIPv4\nTST=LISTEN\n", "lsof: illegal option\n"} {
		if got := parseLsof(nothing, 80); len(got) > 0 {
			t.Errorf("%q gives %+v", nothing, got)
		}
	}
}

func TestParseNetstat(t *testing.T) {
	t.Parallel()
	const output = `Active Internet connections (including servers)
Proto Recv-Q Send-Q  Local Address          Foreign Address        (state)
tcp4       0      0  127.0.0.1.8101         127.0.0.1.50000        ESTABLISHED
tcp4       0      0  127.0.0.1.8101         *.*                    LISTEN
tcp6       0      0  ::1.8101               *.*                    LISTEN
tcp46      0      0  *.8101                 *.*                    LISTEN
tcp4       0      0  *.8101                 *.*                    LISTEN
tcp6       0      0  fe80::1%lo0.8101       *.*                    LISTEN
tcp4       0      0  127.0.0.1.81010        *.*                    LISTEN
tcp4       0      0  127.0.0.1.18101        *.*                    CLOSED
udp4       0      0  *.8101                 *.*                    LISTEN
`
	want := []heldSocket{
		held("tcp4", "127.0.0.1:8101", 0),
		held("tcp6", "[::1]:8101", 0),
		held("tcp6", "[::]:8101", 0),
		held("tcp4", "0.0.0.0:8101", 0),
		held("tcp6", "[fe80::1]:8101", 0),
	}
	if got := parseNetstat(output, 8101); !slices.Equal(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestParseSockstat(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"up to FreeBSD 14": `USER     COMMAND    PID   FD PROTO  LOCAL ADDRESS                                 FOREIGN ADDRESS                               PATH STATE   CONN STATE
www      nginx      4711  6  tcp4   127.0.0.1:8101                                *:*                                                        LISTEN
www      my server  815   12 tcp6   ::1:8101                                      *:*                                                        LISTEN
root     a 1 2 tcp4 99    0  tcp46  *:8101                                        *:*                                                        LISTEN
www      nginx      4711  7  tcp4   127.0.0.1:8102                                *:*                                                        LISTEN
www      nginx      4711  8  tcp4   127.0.0.1:8101                                127.0.0.1:50000                                            ESTABLISHED
www      nginx      4711  9  tcp4   127.0.0.1:8101                                *:*                                                        CLOSED
?        ?          ?     ?  tcp4   *:8101                                        *:*                                                        LISTEN
`,
		"since FreeBSD 15": `USER COMMAND    PID FD PROTO LOCAL ADDRESS  FOREIGN ADDRESS PATH STATE CONN STATE
www  nginx     4711  6 tcp4  127.0.0.1:8101 *:*             ??         LISTEN
www  my server  815 12 tcp6  ::1:8101       *:*             ??         LISTEN
root a 1 2 tcp4  99  0 tcp46 *:8101         *:*             ??         LISTEN
www  nginx     4711  7 tcp4  127.0.0.1:8102 *:*             ??         LISTEN
www  nginx     4711  8 tcp4  127.0.0.1:8101 127.0.0.1:50000 ??         ESTABLISHED
??   ??          ?? ?? tcp4  *:8101         *:*             ??         LISTEN
`,
	}
	want := []heldSocket{
		held("tcp4", "127.0.0.1:8101", 4711),
		held("tcp6", "[::1]:8101", 815),
		held("tcp6", "[::]:8101", 99),
		held("tcp4", "0.0.0.0:8101", 0),
	}
	for name, output := range tests {
		if got := parseSockstat(output, 8101); !slices.Equal(got, want) {
			t.Errorf("%s: got %+v\nwant %+v", name, got, want)
		}
	}
}

func TestToolAddr(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		network, text string
		sep           byte
		want          string
	}{
		{"tcp4", "1.2.3.4:5", ':', "1.2.3.4:5"},
		{"tcp4", "1.2.3.4.5", '.', "1.2.3.4:5"},
		{"tcp6", "::ffff:1.2.3.4:5", ':', "[::ffff:1.2.3.4]:5"},
		{"tcp6", "[::1%en0]:5", ':', "[::1]:5"},
		{"tcp6", "1.2.3.4:5", ':', "[::ffff:1.2.3.4]:5"},
	} {
		got, ok := toolAddr(tt.network, tt.text, tt.sep)
		if !ok || got.String() != tt.want {
			t.Errorf("%s %q: %v, %t, want %s", tt.network, tt.text, got, ok, tt.want)
		}
	}
	for _, bad := range []string{"", ":", "5", "*", "*:", "*:0", "*:65536", "*:-1", "*:+1", "a:5", "[::1:5", "::1:5", "1.2.3.4:5x", "1.2.3:5"} {
		if got, ok := toolAddr("tcp4", bad, ':'); ok {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

// Whatever a command is called, it changes nothing in the other columns.
func TestParseSockstatOfMisleadingNames(t *testing.T) {
	t.Parallel()
	words := []string{"a", "1", "99", "tcp4", "*:*", "*:80", "LISTEN", "??", "?", "127.0.0.1:80"}
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 3))
		name := make([]string, 1+r.IntN(5))
		for i := range name {
			name[i] = words[r.IntN(len(words))]
		}
		line := fmt.Sprintf("root %s 4711 6 tcp4 127.0.0.1:80 *:* ?? LISTEN\n", strings.Join(name, " "))
		if got := parseSockstat(line, 80); !slices.Equal(got, []heldSocket{held("tcp4", "127.0.0.1:80", 4711)}) {
			t.Fatalf("%q: %+v", line, got)
		}
	}
}

func FuzzTools(f *testing.F) {
	f.Add("p1\nf3\ntIPv4\nn*:80\nTST=LISTEN\n")
	f.Add("tcp4 0 0 *.80 *.* LISTEN\n")
	f.Add("root a 1 2 tcp46 *:80 *:* ?? LISTEN\n")
	f.Fuzz(func(t *testing.T, output string) {
		for name, all := range map[string][]heldSocket{
			"lsof": parseLsof(output, 80), "netstat": parseNetstat(output, 80), "sockstat": parseSockstat(output, 80),
		} {
			for _, s := range all {
				if !s.addr.IsValid() || s.addr.Port() != 80 || s.pid < 0 || s.addr.Addr().Is4() != (s.network == "tcp4") {
					t.Fatalf("%s: %q gives %+v", name, output, s)
				}
			}
		}
	})
}
