package probes

import (
	"errors"
	"os"
	"slices"
	"testing"
	"unicode/utf16"

	"github.com/plughost/plughost/shared/marker"
)

func TestMarkerIsLive(t *testing.T) {
	t.Parallel()
	id := testIdentity("live")
	h := start(t, id, "change", "")
	p := open(t, h.pid())
	if got, err := p.Marker(); got != id || err != nil {
		t.Errorf("Marker = %v, %v", got, err)
	}
	birth, err := p.Birth()
	if err != nil {
		t.Fatal(err)
	}
	h.goOn()
	h.next()
	if got, err := p.Marker(); !errors.Is(err, marker.ErrUnmarked) {
		t.Errorf("Marker = %v, %v, after it was unset", got, err)
	}
	if proof := p.Identify(Expect{Identity: id}); proof.Verdict != NotOurs || proof.By != ByMarker {
		t.Errorf("by marker: %+v", proof)
	}
	if proof := p.Identify(Expect{Identity: id, Birth: birth}); proof.Verdict != Ours || proof.By != ByBirth {
		t.Errorf("by birth: %+v", proof)
	}
}

func TestIdentify(t *testing.T) {
	t.Parallel()
	id := testIdentity("identify")
	h := start(t, id, "serve", "")
	p := open(t, h.pid())
	birth, err := p.Birth()
	if err != nil {
		t.Fatal(err)
	}
	other := birth
	other.Start--
	for _, test := range []struct {
		name   string
		expect Expect
		want   Verdict
		by     string
	}{
		{"marker", Expect{Identity: id}, Ours, ByMarker},
		{"birth", Expect{Birth: birth}, Ours, ByBirth},
		{"another birth", Expect{Identity: id, Birth: other}, NotOurs, ByBirth},
		{"another instance", Expect{Identity: testIdentity("other")}, NotOurs, ByMarker},
		{"nothing", Expect{}, Unknown, ""},
	} {
		if got := p.Identify(test.expect); got.Verdict != test.want || got.By != test.by {
			t.Errorf("%s: %+v", test.name, got)
		}
	}
	h.kill()
	gone(t, p)
	if got := p.Identify(Expect{Identity: id}); got.Verdict != Unknown || !errors.Is(got.Err, ErrGone) {
		t.Errorf("after the exit: %+v", got)
	}
}

// A process that was just created shows its own environment, or none yet.
func TestMarkerAtTheStart(t *testing.T) {
	t.Parallel()
	id := testIdentity("start")
	for range 10 {
		cmd := self("serve", "", stamped(id))
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p := open(t, cmd.Process.Pid)
		if got, err := p.Marker(); got != id || err != nil {
			t.Errorf("Marker = %v, %v", got, err)
		}
		_ = in.Close()
		_ = cmd.Wait()
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	id := testIdentity("list")
	id.Installation = "inst-list"
	host := marker.Identity{Kind: marker.KindHost, Installation: id.Installation}
	one, two := start(t, id, "serve", ""), start(t, id, "leader", "serve")
	h := start(t, host, "serve", "")
	start(t, testIdentity("unlisted"), "serve", "")
	tests := map[*Filter][]int{
		{Instance: "list"}:                           {one.pid(), two.pid(), two.numbers[0]},
		{Installation: id.Installation}:              {one.pid(), two.pid(), two.numbers[0]},
		{Installation: id.Installation, Hosts: true}: {h.pid()},
		{Installation: "inst"}:                       nil,
	}
	for filter, want := range tests {
		found, err := List(t.Context(), *filter)
		if err != nil {
			t.Error(err)
		}
		var pids []int
		for _, f := range found {
			pids = append(pids, f.PID)
			if f.Birth.PID != f.PID || f.State != Alive || f.Command == "" || f.PPID == 0 {
				t.Errorf("found %+v", f)
			}
		}
		slices.Sort(want)
		if !slices.Equal(pids, want) {
			t.Errorf("%+v: %d, want %d", *filter, pids, want)
		}
	}
	all, err := ListAll(t.Context())
	if err != nil || len(all) < 5 {
		t.Errorf("ListAll = %+v, %v", all, err)
	}
	for _, f := range all {
		if f.PID == os.Getpid() {
			t.Error("the caller is listed")
		}
	}
}

func TestDecodeEnviron(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		in   string
		want string
		err  error
	}{
		{"=C:=C:\\a\x00A=1\x00Ü=😀\x00\x00", "=C:=C:\\a\x00A=1\x00Ü=😀\x00", nil},
		{"A=1\x00\x00B=2\x00\x00", "A=1\x00", nil}, // room behind the end
		{"\x00\x00", "", nil},
		{"\x00", "", nil},
		{"A=1\x00", "", ErrUnreadable},
		{"A=1", "", ErrUnreadable},
		{"", "", ErrUnreadable},
	} {
		got, err := decodeEnviron(encode(test.in))
		if string(got) != test.want || !errors.Is(err, test.err) {
			t.Errorf("%q: %q, %v", test.in, got, err)
		}
	}
	// Half a character does no harm.
	b, err := decodeEnviron(append(encode("A="), 0x00, 0xd8, 0, 0, 0, 0))
	if err != nil || string(b) != "A="+string(utf16.Decode([]uint16{0xd800}))+"\x00" {
		t.Errorf("%q, %v", b, err)
	}
}

// Where the fields lie on 64-bit Windows.
func TestLayout(t *testing.T) {
	t.Parallel()
	if word([]byte{1, 0, 0, 0, 0, 0, 0, 0}) != 1 {
		t.Error("word")
	}
	if ^uintptr(0)>>32 == 0 {
		t.Skip("a 32-bit program")
	}
	for got, want := range map[uintptr]uintptr{
		pebParametersAt: 0x20, environAt: 0x80, environSizeAt: 0x3f0, environVersionAt: 0x3f8, groupAt: 0x408,
	} {
		if got != want {
			t.Errorf("a field is at %#x, want %#x", got, want)
		}
	}
}
