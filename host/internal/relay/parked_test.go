package relay

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plughost/plughost/host/internal/caller"
	"github.com/plughost/plughost/shared/wire"
)

// newCallNamed makes a call whose client can come back to it by an id.
func newCallNamed(stream string) *call {
	c := &call{stream: stream}
	c.out.init()
	return c
}

// parkNow has a call wait for its client.
func (s *session) parkNow(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.park(c)
}

func TestCallWaitsForItsClientAsLongEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(newRelay(Options{}), "", caller.Caller{})
		c := newCallNamed("call-1")
		for range 3 {
			s.parkNow(c)
			time.Sleep(parkTime - time.Second)
			synctest.Wait()
			if s.comeBack(t.Context(), "call-1") != c {
				t.Fatal("it is gone before its time")
			}
		}
		s.parkNow(c)
		time.Sleep(parkTime)
		synctest.Wait()
		if s.comeBack(t.Context(), "call-1") != nil {
			t.Error("it stays longer than it may")
		}
	})
}

func TestCallThatHasWaitedLongestGivesWay(t *testing.T) {
	s := newSession(newRelay(Options{}), "", caller.Caller{})
	defer s.end()
	for n := range maxParked + 1 {
		s.parkNow(newCallNamed(fmt.Sprintf("call-%d", n)))
	}
	if s.comeBack(t.Context(), "call-0") != nil {
		t.Error("the first one is still there")
	}
	for n := range maxParked {
		if s.comeBack(t.Context(), fmt.Sprintf("call-%d", n+1)) == nil {
			t.Errorf("call %d is gone", n+1)
		}
	}
}

// A client that cancels does not come back.
func TestCancelledCallDoesNotWaitForItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, a := NewJoin("join", "1", Options{}), newTestService("a")
		defer a.Close()
		defer j.Close()
		j.Arrange([]*Service{a})
		s := newTestSession(t, j, reaches("a"), a)
		l := &link{backend: &backend{service: a}, calls: make(map[int64]*call)}
		for _, order := range []string{"park first", "cancel first"} {
			c := newCallNamed("call-1")
			c.id = []byte("1")
			if err := s.claim(c); err != nil {
				t.Fatal(err)
			}
			c.settle = func(*wire.Message) { s.release(c) }
			if err := l.begin(c); err != nil {
				t.Fatal(err)
			}
			if order == "park first" {
				s.parkNow(c)
			}
			s.cancelled(c.id)
			if order == "cancel first" {
				s.parkNow(c)
			}
			if s.comeBack(t.Context(), "call-1") != nil {
				t.Errorf("%s: it waits", order)
			}
			time.Sleep(cancelGrace)
			synctest.Wait()
			if len(s.calls) > 0 || len(l.calls) > 0 {
				t.Errorf("%s: it is in flight", order)
			}
		}
	})
}
