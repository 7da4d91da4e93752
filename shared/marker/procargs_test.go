package marker_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/plughost/plughost/shared/marker"
)

// apple are Apple strings as a process gets them.
var apple = []string{
	"pfz=0x7ffffff12340", "stack_guard=0x6f1fbe4cd2a500a3", "malloc_entropy=0x1,0x2",
	"ptr_munge=0x34e7c8c2ba3c27ac", "main_stack=0x7ff7b8d3c000,0x800000", "executable_file=0x1a01000010,0x5fa1", "th_port=",
}

// stack is what exec lays on a program's stack. encode writes it in the order
// and with the paddings that exec uses, a position after the other.
type stack struct {
	path     string
	args     []string
	env      []string
	apple    []string
	withheld bool
}

func (s stack) encode() []byte {
	var area []byte
	pad := func() {
		for len(area)%8 != 0 {
			area = append(area, 0)
		}
	}
	put := func(list []string) {
		for _, text := range list {
			area = append(area, text...)
			area = append(area, 0)
		}
	}
	put([]string{s.path})
	pad()
	put(s.args)
	put(s.env)
	pad()
	put(s.apple)
	if s.withheld {
		area = withoutEnviron(area, len(s.args))
	}
	return append(binary.NativeEndian.AppendUint32(nil, uint32(len(s.args))), area...)
}

// withoutEnviron cuts the strings as the kernel does for a process whose
// environment it withholds: it looks for the end of the path and of argc more
// strings, and goes over all NULs after the path.
func withoutEnviron(area []byte, argc int) []byte {
	size := 0
	for i := 0; i <= argc && size < len(area); i++ {
		for size < len(area) && area[size] != 0 {
			size++
		}
		if size < len(area) {
			size++
			for i == 0 && size < len(area) && area[size] == 0 {
				size++
			}
		}
	}
	return area[:size]
}

// entries cuts an environment block; padding at its end is no entry.
func entries(block []byte) []string {
	text := strings.TrimRight(string(block), "\x00")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\x00")
}

func TestParseProcArgs(t *testing.T) {
	stamped := append([]string{"PATH=/bin"}, mcp.Environ()...)
	tests := []struct {
		name string
		s    stack
	}{
		{"plain", stack{path: "/bin/cat", args: []string{"cat", "-u"}, env: stamped, apple: apple}},
		{"path of 7", stack{path: "/bin/ab", args: []string{"ab"}, env: stamped, apple: apple}},
		{"path of 8", stack{path: "/bin/abc", args: []string{"abc"}, env: stamped, apple: apple}},
		{"relative path", stack{path: "a", args: []string{"a"}, env: stamped, apple: apple}},
		{"empty first argument", stack{path: "/bin/abc", args: []string{"", "x"}, env: stamped, apple: apple}},
		{"empty arguments", stack{path: "/bin/abcd", args: []string{"", "", "a", "", ""}, env: stamped, apple: apple}},
		{"only an empty argument", stack{path: "/bin/abcdef", args: []string{""}, env: stamped, apple: apple}},
		{"no argument", stack{path: "/bin/abcdef", env: stamped, apple: apple}},
		{"an argument that looks like a stamp", stack{path: "/x", args: []string{"x", "PLUGHOST_INSTANCE=y"}, env: stamped, apple: apple}},
		{"empty environment", stack{path: "/bin/cat", args: []string{"cat"}, apple: apple}},
		{"neither arguments nor environment", stack{path: "/bin/cat", apple: apple}},
		{"no Apple strings", stack{path: "/bin/cat", args: []string{"cat"}, env: stamped}},
		{"environment like Apple strings", stack{path: "/bin/cat", args: []string{"cat"}, env: append([]string{"pfz=0x1"}, stamped...), apple: apple}},
		{"withheld", stack{path: "/bin/sleep", args: []string{"sleep", "10"}, env: stamped, apple: apple, withheld: true}},
		{"withheld, empty arguments", stack{path: "/bin/sleep", args: []string{"", ""}, env: stamped, apple: apple, withheld: true}},
		{"withheld, an empty argument first", stack{path: "/bin/sleep", args: []string{"", "a", ""}, env: stamped, apple: apple, withheld: true}},
		{"withheld, empty environment", stack{path: "/bin/sleep", args: []string{"", "", "a"}, apple: apple, withheld: true}},
		{"withheld, no argument", stack{path: "/bin/sleep", env: stamped, apple: apple, withheld: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := marker.ParseProcArgs(tt.s.encode())
			if err != nil {
				t.Fatal(err)
			}
			if got.Path != tt.s.path || !slices.Equal(got.Args, tt.s.args) || got.Withheld != tt.s.withheld {
				t.Errorf("%+v, want %+v", got, tt.s)
			}
			if tt.s.withheld {
				if len(got.Environ) > 0 {
					t.Errorf("withheld, and yet %q", got.Environ)
				}
				return
			}
			if env := entries(got.Environ); !slices.Equal(env, tt.s.env) {
				t.Errorf("environment %q, want %q", env, tt.s.env)
			}
			id, err := marker.Parse(got.Environ)
			if len(tt.s.env) > 0 && (err != nil || id != mcp) || len(tt.s.env) == 0 && !errors.Is(err, marker.ErrUnmarked) {
				t.Errorf("Parse = %+v, %v", id, err)
			}
		})
	}
}

// Programs that withhold their arguments, too, are shown with their path alone.
func TestParseProcArgsOfNone(t *testing.T) {
	for _, path := range []string{"/a", "/bin/abc", "/usr/bin/something", "/System/Library/a b/c"} {
		blob := append(binary.NativeEndian.AppendUint32(nil, 1), path+"\x00\x00"+path+"\x00"...)
		got, err := marker.ParseProcArgs(blob)
		if err != nil || !got.Withheld || got.Path != path || !slices.Equal(got.Args, []string{path}) || len(got.Environ) > 0 {
			t.Errorf("%s: %+v, %v", path, got, err)
		}
	}
}

func TestParseProcArgsRefuses(t *testing.T) {
	count := func(argc int32, rest string) []byte {
		return append(binary.NativeEndian.AppendUint32(nil, uint32(argc)), rest...)
	}
	whole := stack{path: "/usr/local/bin/server", args: []string{"server", "-v", "x"}, env: mcp.Environ(), apple: apple}.encode()
	tests := map[string][]byte{
		"nothing":               nil,
		"half a count":          {1, 0},
		"no path":               count(1, ""),
		"empty path":            count(1, "\x00\x00\x00\x00\x00\x00\x00\x00a\x00"),
		"path without end":      count(1, "/bin/cat"),
		"padding is cut":        count(1, "/bin/a\x00"),
		"padding is no padding": count(1, "/bin/a\x00b/bin/a\x00"),
		"negative count":        count(-1, "/bin/ab\x00a\x00"),
		"large count":           count(1<<31-1, "/bin/ab\x00a\x00"),
		"count above":           count(3, "/bin/ab\x00a\x00b\x00"),
		"argument without end":  count(1, "/bin/ab\x00a"),
		"cut in the arguments":  whole[:4+24+8],
	}
	for name, blob := range tests {
		if got, err := marker.ParseProcArgs(blob); !errors.Is(err, marker.ErrProcArgs) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// A blob that lost its front must not pass for one of a process without a
// marker, or with another one: it is refused, or what is left of it shows the
// same, or nothing that contradicts. The readers compare two readings besides.
func TestParseProcArgsLostFront(t *testing.T) {
	s := stack{path: "/usr/local/bin/server", args: []string{"server", "--listen", "127.0.0.1:80"}, env: append(mcp.Environ(), "PATH=/bin"), apple: apple}
	whole := s.encode()
	refused, wrong := 0, 0
	for lost := 1; lost < len(whole)-4; lost++ {
		got, err := marker.ParseProcArgs(append(slices.Clone(whole[:4]), whole[4+lost:]...))
		if err != nil {
			refused++
			continue
		}
		id, err := marker.Parse(got.Environ)
		if err == nil && id != mcp {
			wrong++
		}
	}
	if wrong > 0 || refused < len(whole)/2 {
		t.Errorf("%d of %d are refused, %d show another identity", refused, len(whole), wrong)
	}
}

// What exec writes is what is read, whatever the strings are.
func TestParseProcArgsReadsWhatExecWrites(t *testing.T) {
	for seed := range uint64(20000) {
		r := rand.New(rand.NewPCG(seed, 7))
		s := randomStack(r)
		blob := s.encode()
		got, err := marker.ParseProcArgs(blob)
		if err != nil {
			t.Fatalf("%+v: %v", s, err)
		}
		if got.Path != s.path || !slices.Equal(got.Args, s.args) || got.Withheld != s.withheld {
			t.Fatalf("%+v, want %+v", got, s)
		}
		if s.withheld {
			continue
		}
		want, wantErr := marker.ParseList(s.env)
		id, err := marker.Parse(got.Environ)
		if id != want || (err == nil) != (wantErr == nil) || marker.Scan(got.Environ) != !errors.Is(wantErr, marker.ErrUnmarked) {
			t.Fatalf("%+v: %+v, %v; want %+v, %v", s, id, err, want, wantErr)
		}
		if !bytes.HasPrefix(got.Environ, block(s.env...)) || len(got.Environ)-len(block(s.env...)) > 7 {
			t.Fatalf("environment %q, want %q", got.Environ, s.env)
		}
	}
}

func randomStack(r *rand.Rand) stack {
	texts := []string{"", "", "a", "-v", "PLUGHOST_INSTANCE=x", "pfz=0x1", "stack_guard=0x1", "with space", "A=b", "ä", "x=pfz=0x2"}
	some := func(most int) []string {
		var list []string
		for range r.IntN(most + 1) {
			list = append(list, texts[r.IntN(len(texts))])
		}
		return list
	}
	s := stack{path: "/" + strings.Repeat("p", r.IntN(20)), args: some(5), env: some(4), apple: apple[:len(apple)-r.IntN(2)]} // more than arguments
	if r.IntN(2) == 0 {
		s.env = append(s.env, agent.Environ()...)
		r.Shuffle(len(s.env), func(i, j int) { s.env[i], s.env[j] = s.env[j], s.env[i] })
	}
	s.withheld = r.IntN(4) == 0
	return s
}

func FuzzParseProcArgs(f *testing.F) {
	f.Add(stack{path: "/bin/cat", args: []string{"", "b"}, env: mcp.Environ(), apple: apple}.encode())
	f.Add(stack{path: "/bin/sleep", args: []string{"sleep"}, withheld: true}.encode())
	f.Add([]byte{1, 0, 0, 0, 'a', 0})
	f.Add([]byte{0, 0, 0, 0x80, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, blob []byte) {
		got, err := marker.ParseProcArgs(blob)
		if err != nil {
			if !errors.Is(err, marker.ErrProcArgs) {
				t.Fatalf("error %v", err)
			}
			return
		}
		size := len(got.Environ)
		for _, arg := range got.Args {
			size += len(arg) + 1
		}
		if got.Path == "" || size > len(blob) || got.Withheld && size > len(blob)-len(got.Path) {
			t.Fatalf("%d bytes give %+v", len(blob), got)
		}
		_, _ = marker.Parse(got.Environ)
	})
}
