package relay

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// What a listener has with one instance may end late, when it listens to the next.
func TestListenerIsNotToldOfTheStreamThatItHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newTestService("a")
		linkTo := func() *link {
			b := &backend{service: service}
			b.ctx, b.cancel = context.WithCancel(t.Context())
			l := &link{backend: b}
			l.ctx, l.cancel = context.WithCancel(b.ctx)
			return l
		}
		for left, failed := range map[bool]bool{true: false, false: true} {
			g := &listening{client: &call{id: []byte("1")}}
			g.client.out.init()
			p := &part{listening: g, service: service}
			lost := linkTo()
			p.link, p.call = lost, &call{}
			p.answered(lost, p.call, nil)
			time.Sleep(exitTimeout / 2)
			if left {
				p.opening.Lock()
				p.link, p.call = linkTo(), &call{}
				p.opening.Unlock()
			}
			time.Sleep(exitTimeout)
			if got := g.client.out.take(); got.last != failed {
				t.Errorf("it has another stream: %v; its request has ended: %v", left, got.last)
			}
			lost.backend.cancel()
			p.link.backend.cancel()
		}
		service.Close()
	})
}

// An instance may come while a client leaves, and is not listened to.
func TestListenerThatHasLeftIsGivenNoStream(t *testing.T) {
	service := newTestService("a")
	g := &listening{client: &call{id: []byte("1")}}
	p := &part{listening: g, service: service}
	g.parts = []*part{p}
	g.leave()
	g.restore(&backend{service: service})
	if p.link != nil {
		t.Error("it has a stream")
	}
}
