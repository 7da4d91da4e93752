package relay

import (
	"context"
	"testing"
)

// Who is late to give a call up does not end another one.
func TestLaneEndsForItsCallAlone(t *testing.T) {
	n := &lane{relay: newRelay(Options{}), link: &link{backend: &backend{}, calls: make(map[int64]*call)}}
	n.ctx, n.cancel = context.WithCancel(t.Context())
	first, second := newCallNamed(""), newCallNamed("")
	for _, c := range []*call{first, second} {
		if err := n.begin(c); err != nil {
			t.Fatal(err)
		}
		if c == first {
			n.settled()
		}
	}
	if n.drop(first); !n.alive() {
		t.Error("a call that is answered ends the next one")
	}
	if n.drop(second); n.alive() {
		t.Error("the lane lives")
	}
}

func TestLanesToEachPluginAreBounded(t *testing.T) {
	var pool lanes
	one, other := &backend{}, &backend{}
	newLane := func(b *backend) *lane {
		n := &lane{link: &link{backend: b}, caller: "alice"}
		n.ctx, n.cancel = context.WithCancel(t.Context())
		return n
	}
	first, kept := newLane(one), newLane(other)
	pool.put(kept)
	pool.put(first)
	for range maxLanes {
		pool.put(newLane(one))
	}
	if first.alive() || !kept.alive() || len(pool.idle) != maxLanes+1 {
		t.Errorf("the oldest is alive: %v; that to another plugin: %v; %d wait", first.alive(), kept.alive(), len(pool.idle))
	}
	if pool.take(other, "bob") != nil {
		t.Error("another caller gets the lane")
	}
	if pool.take(other, "alice") != kept {
		t.Error("the lane to another plugin is gone")
	}
}
