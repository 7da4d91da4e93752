package relay

import (
	"context"
	"testing"
)

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
