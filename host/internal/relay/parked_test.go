package relay

import (
	"fmt"
	"slices"
	"strings"
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

// answerOf gives a call an answer of about so many bytes.
func answerOf(t *testing.T, c *call, size int) {
	t.Helper()
	answer, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":{"x":%q}}`, strings.Repeat("x", size)))
	if err != nil {
		t.Fatal(err)
	}
	c.finish(&answer)
}

// checkParked checks which calls of a session wait, by their streams.
func checkParked(t *testing.T, s *session, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var got []string
	for _, p := range s.parked {
		got = append(got, p.stream)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q wait, want %q", got, want)
	}
}

func TestWhatWaitsWithTheCallsOfASessionIsBounded(t *testing.T) {
	s := newSession(newRelay(Options{}), "", caller.Caller{})
	defer s.end()
	for _, name := range []string{"early", "none", "late"} {
		s.parkNow(newCallNamed(name))
	}
	answerOf(t, s.parked[2].call, maxParkedBytes+1)
	checkParked(t, s, "early", "none", "late") // a single one is not too large
	answerOf(t, s.parked[0].call, 1)
	checkParked(t, s, "none", "late")
	answered := newCallNamed("answered")
	answerOf(t, answered, 1)
	s.parkNow(answered) // as when the answer could not be written
	checkParked(t, s, "none", "answered")
}

func TestWhatWaitsWithTheCallsOfAllSessionsIsBounded(t *testing.T) {
	r := newRelay(Options{})
	park := func(s *session, size int) {
		c := newCallNamed("call")
		c.out.close(item{head: make([]byte, size)})
		s.parkNow(c)
	}
	var sessions []*session
	for range maxAllParkedBytes/maxParkedBytes + 1 {
		s := newSession(r, "", caller.Caller{})
		defer s.end()
		sessions = append(sessions, s)
		park(s, maxParkedBytes)
	}
	checkParked(t, sessions[0], "call")
	last := sessions[len(sessions)-1]
	checkParked(t, last)
	sessions[0].comeBack(t.Context(), "call")
	park(last, maxParkedBytes)
	checkParked(t, last, "call")
	sessions[1].end()
	park(sessions[0], maxParkedBytes)
	checkParked(t, sessions[0], "call")
	for _, s := range sessions {
		s.end()
	}
	if left := r.parked.Load(); left != 0 {
		t.Errorf("%d bytes are taken to wait, and nothing does", left)
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
