package events

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/supervise"
)

func publish(h *Hub, from, to int) {
	for n := from; n < to; n++ {
		h.Publish(Event{Type: ServiceChanged, Cause: fmt.Sprint(n)})
	}
}

// ready are the causes of the events that are there already; those that were
// lost are counted.
func ready(s *Subscription) (causes []string, lost uint64) {
	for {
		event, ok := s.Ready()
		if !ok {
			return causes, lost
		}
		if event.Type == Lost {
			lost += event.Count
			continue
		}
		causes = append(causes, event.Cause)
	}
}

func numbers(from, to int) []string {
	var all []string
	for n := from; n < to; n++ {
		all = append(all, fmt.Sprint(n))
	}
	return all
}

func TestASubscriberGetsWhatIsRememberedAndWhatComes(t *testing.T) {
	for _, test := range []struct{ published, from int }{{0, 0}, {1, 0}, {4, 0}, {5, 1}, {103, 99}} {
		h := NewHub(time.Now(), 4)
		publish(h, 0, test.published)
		s := h.Subscribe("")
		defer s.Close()
		if got, lost := ready(s); !slices.Equal(got, numbers(test.from, test.published)) || lost != 0 {
			t.Errorf("of %d it gets %q, and %d are lost", test.published, got, lost)
		}
		publish(h, test.published, test.published+3)
		if got, _ := ready(s); !slices.Equal(got, numbers(test.published, test.published+3)) {
			t.Errorf("after %d it gets %q", test.published, got)
		}
	}
}

func TestASubscriberGoesOnAfterAnID(t *testing.T) {
	h := NewHub(time.UnixMilli(1e12), 4)
	publish(h, 0, 3)
	s := h.Subscribe("")
	first, _ := s.Ready()
	second, _ := s.Ready()
	s.Close()
	other := NewHub(time.UnixMilli(1e12+1), 4)
	publish(other, 0, 1)
	o := other.Subscribe("")
	foreign, _ := o.Ready()
	o.Close()

	tests := []struct {
		name, after string
		want        []string
	}{
		{"the first", first.ID, numbers(1, 3)},
		{"the second", second.ID, numbers(2, 3)},
		{"of another host", foreign.ID, numbers(0, 3)},
		{"of the future", first.ID + "00", numbers(0, 3)},
		{"no number", first.ID + "x", numbers(0, 3)},
		{"nothing like it", "-", numbers(0, 3)},
	}
	for _, test := range tests {
		s := h.Subscribe(test.after)
		if got, lost := ready(s); !slices.Equal(got, test.want) || lost != 0 {
			t.Errorf("after %s (%s) it gets %q, and %d are lost", test.name, test.after, got, lost)
		}
		s.Close()
	}

	// One that the hub has forgotten: it is known how many came after it.
	publish(h, 3, 10)
	s = h.Subscribe(second.ID)
	defer s.Close()
	if got, lost := ready(s); !slices.Equal(got, numbers(6, 10)) || lost != 4 {
		t.Errorf("after one that is forgotten it gets %q, and %d are lost, want 4", got, lost)
	}
}

func TestASlowSubscriberIsToldWhatItLost(t *testing.T) {
	h := NewHub(time.Now(), 10)
	slow, fast := h.Subscribe(""), h.Subscribe("")
	defer slow.Close()
	defer fast.Close()
	var got []string
	for n := range 1000 {
		publish(h, n, n+1)
		causes, _ := ready(fast)
		got = append(got, causes...)
	}
	if !slices.Equal(got, numbers(0, 1000)) {
		t.Errorf("the fast one gets %d of 1000", len(got))
	}
	if got, lost := ready(slow); !slices.Equal(got, numbers(990, 1000)) || lost != 990 {
		t.Errorf("the slow one gets %q and is told that it lost %d", got, lost)
	}
}

func TestNextWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHub(time.Now(), 4)
		s := h.Subscribe("")
		defer s.Close()
		got := make(chan error, 1)
		next := func(ctx context.Context, want string) {
			event, err := s.Next(ctx)
			if err == nil && event.Cause != want {
				err = fmt.Errorf("got %q, want %q", event.Cause, want)
			}
			got <- err
		}
		go next(t.Context(), "0")
		synctest.Wait()
		if len(got) != 0 {
			t.Fatalf("it does not wait: %v", <-got)
		}
		publish(h, 0, 1)
		if err := <-got; err != nil {
			t.Error(err)
		}

		ctx, cancel := context.WithCancel(t.Context())
		go next(ctx, "")
		synctest.Wait()
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("after the end of its context: %v", err)
		}

		publish(h, 1, 2)
		h.Close()
		publish(h, 2, 3)
		next(t.Context(), "1")
		if err := <-got; err != nil {
			t.Error(err)
		}
		next(t.Context(), "")
		if err := <-got; !errors.Is(err, io.EOF) {
			t.Errorf("after the end of the hub: %v", err)
		}
	})
}

func TestManySubscribersWhileOthersPublish(t *testing.T) {
	const publishers, each = 4, 500
	h := NewHub(time.Now(), publishers*each)
	var all sync.WaitGroup
	for range 8 {
		s := h.Subscribe("")
		all.Go(func() {
			defer s.Close()
			seen := make(map[string]bool)
			for len(seen) < publishers*each {
				event, err := s.Next(t.Context())
				if err != nil || event.Type == Lost || seen[event.ID] {
					t.Errorf("event %+v, %v", event, err)
					return
				}
				seen[event.ID] = true
			}
		})
	}
	for range publishers {
		all.Go(func() { publish(h, 0, each) })
	}
	all.Wait()
	if len(h.wake) != 0 {
		t.Errorf("%d subscriptions are left", len(h.wake))
	}
}

func TestTransition(t *testing.T) {
	change := supervise.Change{
		Status: supervise.Status{
			Service: config.Ref{Kind: config.KindMCP, Name: "clock"}, State: supervise.Backoff, Since: time.Unix(1e9, 0), Cause: "c",
			Instance: "i", PID: 7, Port: 8101, Restarts: 3, NextTry: time.Unix(2e9, 0), LastError: "e",
		},
		From: supervise.Stopping,
	}
	want := Event{
		Time: time.Unix(1e9, 0), Type: ServiceChanged, Service: "mcp.clock", Instance: "i", PID: 7, Port: 8101,
		From: supervise.Stopping, To: supervise.Backoff, Cause: "c", Restarts: 3, NextTry: time.Unix(2e9, 0), Error: "e",
	}
	if got := Transition(change); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
