package relay

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"
)

const (
	// maxParked bounds the calls of a session whose stream was lost, and
	// parkTime how long they wait for their client.
	maxParked = 64
	parkTime  = 5 * time.Minute
	// maxParkedBytes bounds what waits with the calls of a session, but for a single
	// one, and maxAllParkedBytes with those of all sessions.
	maxParkedBytes    = 16 << 20
	maxAllParkedBytes = 64 << 20
)

// parked is a call that waits for its client to come back to its stream.
type parked struct {
	*call
	expiry *time.Timer
}

// weigh bounds how much waits with the parked calls: the one that has waited longest
// gives way, of those with which something does. The lock is held. It is called
// whenever that is more than before, or less.
func (s *session) weigh() {
	for {
		weight, first, heavy := 0, 0, 0
		for i, p := range slices.Backward(s.parked) {
			if size := p.out.size(); size > 0 {
				weight, first, heavy = weight+size, i, heavy+1
			}
		}
		all := s.relay.parked.Add(int64(weight - s.weight))
		s.weight = weight
		if heavy == 0 || (heavy == 1 || weight <= maxParkedBytes) && all <= maxAllParkedBytes {
			return
		}
		s.abandon(s.take(first))
	}
}

// more is told that something was added to what waits with a call. The lock is not
// held.
func (c *call) more() {
	if s := c.parkedIn.Load(); s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.weigh()
	}
}

// newStream names the stream of a call, if the client can come back to it.
func (s *session) newStream() string {
	if s.memory.revision() < firstResumable {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams++
	return fmt.Sprintf("call-%d", s.streams)
}

// writing is a response on which a client gets the answer to a call to which it can
// come back.
type writing struct {
	move func()        // ends it soon
	over chan struct{} // closed when it has ended
}

// stream writes the events of a call to which its client can come back. If it does
// not get all of them the call waits for it.
func (s *session) stream(ctx context.Context, w http.ResponseWriter, c *call, write func(context.Context, *events) bool) (all bool) {
	ctx, cancel := context.WithCancel(ctx)
	until, hurryUp := context.WithCancel(s.ctx)
	g := &writing{func() { cancel(); hurryUp() }, make(chan struct{})}
	defer close(g.over)
	defer g.move()
	s.mu.Lock()
	if s.writing == nil {
		s.writing = make(map[string]*writing)
	}
	s.writing[c.stream] = g
	s.mu.Unlock()
	defer hurry(until, w)()
	all = write(ctx, newEvents(w))
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.writing, c.stream)
	if !all {
		s.park(c)
	}
	return all
}

// park keeps a call whose stream was lost for its client. If there are many, the
// one that has waited longest gives way. The lock is held.
func (s *session) park(c *call) {
	if s.ctx.Err() != nil || c.cancelled.Load() || !s.keeps(c) {
		s.abandon(c)
		return
	}
	if len(s.parked) == maxParked {
		s.abandon(s.take(0))
	}
	p := &parked{call: c}
	p.expiry = time.AfterFunc(parkTime, func() { s.expired(p) })
	s.parked = append(s.parked, p)
	c.parkedIn.Store(s) // before it is weighed: what comes later weighs it again
	s.weigh()
}

// comeBack returns the call of a stream to which its client has come back, or nil.
// The client may have lost a stream that nobody else knows to be lost.
func (s *session) comeBack(ctx context.Context, stream string) *call {
	s.mu.Lock()
	lost := s.writing[stream]
	s.mu.Unlock()
	if lost != nil {
		lost.move()
		select {
		case <-lost.over:
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.parked, func(p *parked) bool { return p.stream == stream })
	if i < 0 {
		return nil
	}
	defer s.weigh()
	return s.take(i)
}

// expired gives up a call whose client has not come back in time.
func (s *session) expired(p *parked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.parked, p); i >= 0 {
		s.abandon(s.take(i))
		s.weigh()
	}
}

// take takes a call of those that are parked. The lock is held.
func (s *session) take(i int) *call {
	p := s.parked[i]
	p.expiry.Stop()
	p.parkedIn.Store(nil)
	s.parked = slices.Delete(s.parked, i, i+1)
	return p.call
}

// abandonParked gives up the calls that wait for their client and for which ok
// holds. The lock is held.
func (s *session) abandonParked(ok func(*call) bool) {
	for i, p := range slices.Backward(s.parked) {
		if ok(p.call) {
			s.abandon(s.take(i))
		}
	}
	s.weigh()
}

// abandon has nothing wait any more for a client that does not come back to its
// call. That lists have changed it hears elsewhere. The lock is held.
func (s *session) abandon(c *call) {
	for _, i := range c.out.abandon() {
		if i.list != "" {
			s.outbox.offer(i)
		}
	}
}

// left gives up a call whose client cannot come back to it. It goes on, as clients
// expect that have sessions.
func (s *session) left(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abandon(c)
}

// resume writes what is left of a call whose stream the client has lost.
func (s *session) resume(w http.ResponseWriter, r *http.Request, stream string) {
	c := s.comeBack(r.Context(), stream)
	if c == nil {
		http.Error(w, "there is no such stream to come back to", http.StatusBadRequest)
		return
	}
	s.stream(r.Context(), w, c, func(ctx context.Context, e *events) bool {
		return e.pump(ctx, &c.out, s.takeAttached(&c.out))
	})
}
