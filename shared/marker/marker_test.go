package marker_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/plughost/plughost/shared/marker"
)

var (
	mcp   = marker.Identity{Kind: marker.KindMCP, Service: "clock", Installation: "inst-1", Instance: "launch-1"}
	agent = marker.Identity{Kind: marker.KindAgent, Service: "planner", Installation: "inst-1", Instance: "launch-2"}
	host  = marker.Identity{Kind: marker.KindHost, Installation: "inst-1"}
)

// block encodes an environment as the kernel shows it.
func block(entries ...string) []byte {
	var b []byte
	for _, e := range entries {
		b = append(append(b, e...), 0)
	}
	return b
}

func TestParse(t *testing.T) {
	const (
		sub   = "PLUGHOST_SUBPROCESS=1"
		name  = "PLUGHOST_MCP_SERVICE=clock"
		other = "PLUGHOST_AGENT=planner"
		inst  = "PLUGHOST_INSTALLATION=inst-1"
		one   = "PLUGHOST_INSTANCE=launch-1"
		two   = "PLUGHOST_INSTANCE=launch-2"
		hosts = "PLUGHOST_HOST=inst-1"
	)
	tests := []struct {
		name string
		env  []string
		want marker.Identity
		err  error
		says string
	}{
		{"mcp", []string{"A=b", sub, name, inst, one}, mcp, nil, ""},
		{"agent", []string{two, inst, other, sub, "Z="}, agent, nil, ""},
		{"host", []string{"PATH=/bin", hosts}, host, nil, ""},
		{"host below a host", []string{sub, name, inst, one, hosts}, mcp, nil, ""},
		{"other variables of the family", []string{sub, name, inst, one, "PLUGHOST_PORT=1", "PLUGHOST_INSTANCES=x", "PLUGHOST_=y"}, mcp, nil, ""},
		{"lower case is another variable", []string{"plughost_subprocess=1"}, marker.Identity{}, marker.ErrUnmarked, ""},
		{
			"value with signs",
			[]string{sub, "PLUGHOST_MCP_SERVICE=a=b PLUGHOST_AGENT=c\nd", inst, one},
			marker.Identity{Kind: marker.KindMCP, Service: "a=b PLUGHOST_AGENT=c\nd", Installation: "inst-1", Instance: "launch-1"},
			nil, "",
		},

		{"empty", nil, marker.Identity{}, marker.ErrUnmarked, ""},
		{"unmarked", []string{"A=b", "PLUGHOST_PORT=1"}, marker.Identity{}, marker.ErrUnmarked, ""},
		{"in a value", []string{"A=PLUGHOST_SUBPROCESS=1", "B=x PLUGHOST_HOST=1"}, marker.Identity{}, marker.ErrUnmarked, ""},
		{"at a name's end", []string{"XPLUGHOST_HOST=1", "PLUGHOST_PLUGHOST_HOST=1"}, marker.Identity{}, marker.ErrUnmarked, ""},
		{"no equals sign", []string{"PLUGHOST_HOST", "PLUGHOST_SUBPROCESS"}, marker.Identity{}, marker.ErrUnmarked, ""},

		{"subprocess of another value", []string{"PLUGHOST_SUBPROCESS=true", name, inst, one}, marker.Identity{}, marker.ErrMalformed, "PLUGHOST_SUBPROCESS"},
		{"empty subprocess", []string{"PLUGHOST_SUBPROCESS=", name, inst, one}, marker.Identity{}, marker.ErrMalformed, "PLUGHOST_SUBPROCESS is empty"},
		{"no subprocess", []string{name, inst, one}, marker.Identity{}, marker.ErrMalformed, "PLUGHOST_SUBPROCESS"},
		{"no name", []string{sub, inst, one}, marker.Identity{}, marker.ErrMalformed, "PLUGHOST_AGENT"},
		{"both names", []string{sub, name, other, inst, one}, marker.Identity{}, marker.ErrMalformed, "both"},
		{"no installation", []string{sub, name, one}, marker.Identity{}, marker.ErrMalformed, "PLUGHOST_INSTALLATION is not set"},
		{"no instance", []string{sub, name, inst}, marker.Identity{}, marker.ErrMalformed, "PLUGHOST_INSTANCE is not set"},
		{"empty service", []string{sub, "PLUGHOST_MCP_SERVICE=", inst, one}, marker.Identity{}, marker.ErrMalformed, "empty"},
		{"empty installation", []string{sub, name, "PLUGHOST_INSTALLATION=", one}, marker.Identity{}, marker.ErrMalformed, "empty"},
		{"contradicting duplicate", []string{sub, name, inst, one, two}, marker.Identity{}, marker.ErrMalformed, "PLUGHOST_INSTANCE is set 2 times"},
		{"equal duplicate", []string{sub, sub, name, inst, one}, marker.Identity{}, marker.ErrMalformed, "PLUGHOST_SUBPROCESS is set 2 times"},
		{"empty duplicate", []string{sub, name, inst, one, "PLUGHOST_AGENT="}, marker.Identity{}, marker.ErrMalformed, "empty"},
		{"host twice", []string{hosts, hosts}, marker.Identity{}, marker.ErrMalformed, "PLUGHOST_HOST"},
		{"empty host", []string{"PLUGHOST_HOST="}, marker.Identity{}, marker.ErrMalformed, "empty"},
		{"host with leftovers", []string{hosts, inst}, marker.Identity{}, marker.ErrMalformed, "PLUGHOST_INSTALLATION"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			check := func(how string, got marker.Identity, err error) {
				t.Helper()
				if got != tt.want || !errors.Is(err, tt.err) {
					t.Errorf("%s = %+v, %v; want %+v, %v", how, got, err, tt.want, tt.err)
				}
				if err != nil && !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%s: error %q does not say %q", how, err, tt.says)
				}
			}
			b := block(tt.env...)
			got, err := marker.Parse(b)
			check("Parse", got, err)
			if len(b) > 0 {
				got, err = marker.Parse(b[:len(b)-1])
				check("Parse without the last NUL", got, err)
			}
			got, err = marker.ParseList(tt.env)
			check("ParseList", got, err)
			if want := !errors.Is(tt.err, marker.ErrUnmarked); marker.Scan(b) != want {
				t.Errorf("Scan = %t, want %t", !want, want)
			}
		})
	}
}

func TestEnviron(t *testing.T) {
	for _, id := range []marker.Identity{mcp, agent, host} {
		got, err := marker.ParseList(append([]string{"A=b"}, id.Environ()...))
		if err != nil || got != id {
			t.Errorf("%+v comes back as %+v, %v", id, got, err)
		}
	}
	if got := host.Environ(); !slices.Equal(got, []string{"PLUGHOST_HOST=inst-1"}) {
		t.Errorf("a host's stamps are %q", got)
	}
	if got := (marker.Identity{Service: "x"}).Environ(); got != nil {
		t.Errorf("an identity of no kind has the stamps %q", got)
	}
}

func TestNames(t *testing.T) {
	want := []string{
		"PLUGHOST_SUBPROCESS", "PLUGHOST_MCP_SERVICE", "PLUGHOST_AGENT",
		"PLUGHOST_INSTALLATION", "PLUGHOST_INSTANCE", "PLUGHOST_HOST",
	}
	if got := marker.Names(); !slices.Equal(got, want) {
		t.Errorf("Names = %q, want %q", got, want)
	}
	for _, name := range want {
		if !marker.IsMarker(name) {
			t.Errorf("%s is no marker", name)
		}
	}
	for _, name := range []string{"", "PLUGHOST_", "PLUGHOST_PORT", "PLUGHOST_HOST=", "plughost_host"} {
		if marker.IsMarker(name) {
			t.Errorf("%q is a marker", name)
		}
	}
}

func TestScrub(t *testing.T) {
	env := append(append([]string{"A=b", "PLUGHOST_PORT=1"}, mcp.Environ()...), host.Environ()...)
	env = append(env, "PLUGHOST_HOST", "=C:=x")
	before := slices.Clone(env)
	want := []string{"A=b", "PLUGHOST_PORT=1", "PLUGHOST_HOST", "=C:=x"}
	if got := marker.Scrub(env); !slices.Equal(got, want) {
		t.Errorf("Scrub = %q, want %q", got, want)
	}
	if !slices.Equal(env, before) {
		t.Error("Scrub changed its argument")
	}
}

func TestMatches(t *testing.T) {
	tests := []struct {
		want marker.Identity
		ok   bool
	}{
		{marker.Identity{}, true},
		{mcp, true},
		{marker.Identity{Installation: "inst-1"}, true},
		{marker.Identity{Kind: marker.KindAgent, Installation: "inst-1"}, false},
		{marker.Identity{Service: "clocks"}, false},
		{marker.Identity{Instance: "launch-2"}, false},
		{marker.Identity{Installation: "inst-2"}, false},
	}
	for _, tt := range tests {
		if got := mcp.Matches(tt.want); got != tt.ok {
			t.Errorf("Matches(%+v) = %t", tt.want, got)
		}
	}
}

func TestString(t *testing.T) {
	for id, want := range map[marker.Identity]string{
		{}:   "unmarked",
		host: "host of installation inst-1",
		mcp:  "mcp clock, instance launch-1, installation inst-1",
	} {
		if got := id.String(); got != want {
			t.Errorf("String = %q, want %q", got, want)
		}
	}
}

func TestScanDoesNotAllocate(t *testing.T) {
	blocks := [][]byte{
		block("A=b", "PATH=/bin", "X=PLUGHOST_HOST=1"),
		block(append([]string{"A=b"}, mcp.Environ()...)...),
	}
	for _, b := range blocks {
		if n := testing.AllocsPerRun(100, func() { marker.Scan(b) }); n != 0 {
			t.Errorf("Scan allocates %v times", n)
		}
	}
}

func BenchmarkScan(b *testing.B) {
	env := []string{"LONG=" + strings.Repeat("PLUGHOST ", 200)}
	for range 40 {
		env = append(env, "SOME_VARIABLE=/usr/local/share/of/something:/usr/share/of/something")
	}
	plain := block(env...)
	marked := block(append(env, mcp.Environ()...)...)
	b.Run("unmarked", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(plain)))
		for b.Loop() {
			marker.Scan(plain)
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(marked)))
		for b.Loop() {
			if _, err := marker.Parse(marked); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func TestScanKnowsTheLongestName(t *testing.T) {
	longest := ""
	for _, name := range marker.Names() {
		if len(name) > len(longest) {
			longest = name
		}
	}
	if !marker.Scan(block(longest + "=" + strings.Repeat("x", 100))) {
		t.Errorf("Scan does not see %s", longest)
	}
}
