//go:build linux || darwin || freebsd

package probes

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/plughost/plughost/shared/marker"
)

func pids(found []Found) []int {
	var all []int
	for _, f := range found {
		all = append(all, f.PID)
	}
	return all
}

func TestList(t *testing.T) {
	t.Parallel()
	id, hostID := ids(t)
	second := id
	second.Instance += "-b"
	second.Kind = marker.KindAgent
	a := start(t, "leader", "serve", withGroup(), withMarker(id))
	b := start(t, "serve", "", withMarker(second))
	host := start(t, "serve", "", withMarker(hostID))
	dead := start(t, "serve", "", withMarker(id))
	p := open(t, dead.pid())
	if err := dead.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(t.Context()); err != nil { // a zombie from here on
		t.Fatal(err)
	}
	// These only look like it.
	start(t, "serve", "", withEnv("SOME="+marker.Instance+"="+id.Instance))
	start(t, "serve", "", withEnv(marker.Instance+"="+id.Instance, marker.Subprocess+"=1"))

	for _, tt := range []struct {
		name string
		f    Filter
		want []int
	}{
		{"instance", Filter{Instance: id.Instance}, []int{a.pid(), a.numbers[0]}},
		{"installation", Filter{Installation: id.Installation}, []int{a.pid(), a.numbers[0], b.pid()}},
		{"both", Filter{Installation: id.Installation, Instance: second.Instance}, []int{b.pid()}},
		{"hosts", Filter{Installation: id.Installation, Hosts: true}, []int{host.pid()}},
		{"another installation", Filter{Installation: id.Installation + "x"}, nil},
		{"contradiction", Filter{Installation: "x", Instance: id.Instance}, nil},
	} {
		found, err := List(t.Context(), tt.f)
		slices.Sort(tt.want)
		if got := pids(found); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, %v, want %v", tt.name, got, err, tt.want)
		}
	}

	found, err := List(t.Context(), Filter{Instance: id.Instance})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		birth, err := open(t, f.PID).Birth()
		ppid := os.Getpid()
		if f.PID != a.pid() {
			ppid = a.pid()
		}
		if err != nil || f.Birth != birth || f.Identity != id || f.PPID != ppid || f.PGID != a.pid() ||
			f.State != Alive || f.UID != os.Geteuid() || f.Command == "" {
			t.Errorf("found %+v", f)
		}
	}
}

func TestListRefuses(t *testing.T) {
	t.Parallel()
	for _, f := range []Filter{{}, {Hosts: true}, {Hosts: true, Instance: "x"}} {
		if _, err := List(t.Context(), f); err == nil {
			t.Errorf("List takes %+v", f)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := List(ctx, Filter{Instance: "x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

func TestListIsNeverTheCaller(t *testing.T) {
	t.Parallel()
	id, _ := ids(t)
	cmd := self("list-self", id.Instance, marker.Scrub(os.Environ()))
	cmd.Env = append(cmd.Env, id.Environ()...)
	out, err := cmd.Output()
	if err != nil || string(out) != "0\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestListLeavesNothing(t *testing.T) {
	id, _ := ids(t)
	start(t, "serve", "", withMarker(id))
	// What is opened once and kept is not counted.
	if _, err := Listeners(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := List(t.Context(), Filter{Instance: id.Instance}); err != nil {
		t.Fatal(err)
	}
	before := openFiles()
	for range 5 {
		if _, err := List(t.Context(), Filter{Instance: id.Instance}); err != nil {
			t.Fatal(err)
		}
		if _, err := Listeners(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	if after := openFiles(); after > before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}
