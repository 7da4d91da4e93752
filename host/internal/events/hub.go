package events

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Hub remembers the latest events and wakes those who wait for the next. Its
// methods may be called concurrently.
type Hub struct {
	run string // tells this hub's ids from another's

	mu     sync.Mutex
	ring   []Event // event n is at n % len
	next   uint64  // the number of the next event; the first has 1
	closed bool
	wake   map[*Subscription]struct{}
}

// NewHub makes a hub that remembers the last keep events. run is to be another
// one for each hub of an installation: it is a part of the ids.
func NewHub(run time.Time, keep int) *Hub {
	return &Hub{
		run:  strconv.FormatInt(run.UnixMilli(), 36),
		ring: make([]Event, keep),
		next: 1,
		wake: make(map[*Subscription]struct{}),
	}
}

// Publish gives an event its id, and a time if it has none, and returns at
// once: no subscriber is waited for.
func (h *Hub) Publish(event Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	event.ID = fmt.Sprintf("%s-%d", h.run, h.next)
	if event.Time.IsZero() {
		event.Time = time.Now()
	}
	h.ring[h.next%uint64(len(h.ring))] = event
	h.next++
	h.wakeAll()
}

// Close ends each subscription once it has read what is there. Nothing is
// published any more.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.wakeAll()
}

func (h *Hub) wakeAll() {
	for s := range h.wake {
		select {
		case s.woken <- struct{}{}:
		default: // it has not looked since the last time
		}
	}
}

// oldest is the number of the first event that is remembered.
func (h *Hub) oldest() uint64 {
	if n := uint64(len(h.ring)); h.next > n {
		return h.next - n
	}
	return 1
}

// Subscribe returns the events after the one whose id is given, in their order
// and without a gap. If that is none of this hub's, as after a restart of the
// host, or is empty, it returns all that are remembered. Close must be called.
func (h *Hub) Subscribe(after string) *Subscription {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &Subscription{hub: h, next: h.oldest(), woken: make(chan struct{}, 1)}
	if run, number, ok := strings.Cut(after, "-"); ok && run == h.run {
		if n, err := strconv.ParseUint(number, 10, 64); err == nil && n < h.next {
			s.next = n + 1
		}
	}
	h.wake[s] = struct{}{}
	return s
}

// Subscription reads events. It is for one goroutine. What it has not read
// takes no memory but the hub's: who is too slow is told how much was
// forgotten meanwhile.
type Subscription struct {
	hub   *Hub
	next  uint64
	woken chan struct{}
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	delete(s.hub.wake, s)
}

// Next waits for the next event. It ends with ctx, or with io.EOF after the
// last event of a hub that was closed. An event of type Lost stands for those
// that the hub has forgotten.
func (s *Subscription) Next(ctx context.Context) (Event, error) {
	for {
		event, ok, closed := s.take()
		switch {
		case ok:
			return event, nil
		case closed:
			return Event{}, io.EOF
		}
		select {
		case <-s.woken:
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}

// Ready returns the next event if there is one already.
func (s *Subscription) Ready() (Event, bool) {
	event, ok, _ := s.take()
	return event, ok
}

func (s *Subscription) take() (event Event, ok, closed bool) {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.next == h.next {
		return Event{}, false, h.closed
	}
	if oldest := h.oldest(); s.next < oldest {
		n := oldest - s.next
		s.next = oldest
		return Event{
			Time: time.Now(), Type: Lost, Count: n,
			Cause: fmt.Sprintf("%d events were forgotten before they were read", n),
		}, true, false
	}
	event = h.ring[s.next%uint64(len(h.ring))]
	s.next++
	return event, true, false
}
