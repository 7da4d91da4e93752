package relay

import (
	"fmt"
	"testing"

	"github.com/plughost/plughost/shared/wire"
)

// newTestSession makes a session of one who reaches some services at a joined
// endpoint, and has used them.
func newTestSession(t *testing.T, j *Join, who Grants, used ...*Service) *session {
	t.Helper()
	s := newSession(j.Relay, "", who)
	if !j.add(s) {
		t.Fatal("the endpoint takes no session")
	}
	for _, service := range used {
		if _, err := s.attachmentTo(service); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// subscribe has a session remember a subscription.
func (s *session) subscribe(t *testing.T, service *Service) *wire.Message {
	t.Helper()
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"x://` + service.name + `"}}`))
	if err != nil {
		t.Fatal(err)
	}
	s.memory.subscribed(service, &m)
	return &m
}

// callOf is a call that a service has, to which its client can come back by an id.
func callOf(service *Service, stream string) *call {
	c := newCallNamed(stream)
	c.link = &link{backend: &backend{service: service}}
	return c
}

func TestSessionKeepsNothingOfAServiceThatIsOutOfReach(t *testing.T) {
	for what, lose := range map[string]func(*Join, *session, *Service){
		"the caller may not reach it": func(_ *Join, s *session, a *Service) { s.grant(reaches(a.name)) },
		"it was removed":              func(j *Join, _ *session, a *Service) { j.Arrange([]*Service{a}) },
	} {
		t.Run(what, func(t *testing.T) {
			j := NewJoin("join", "1", Options{})
			defer j.Close()
			a, b := newTestService("a"), newTestService("b")
			j.Arrange([]*Service{a, b})
			s := newTestSession(t, j, reaches("ab"), a, b)
			ofA, ofB := s.subscribe(t, a), s.subscribe(t, b)
			s.outbox.offer(item{head: []byte("of a"), of: a})
			s.outbox.offer(item{head: []byte("of b"), of: b})
			mixed := callOf(a, "call-1")
			mixed.out.offer(item{head: []byte("of b"), of: b})
			s.parkNow(mixed)
			s.parkNow(callOf(b, "call-2"))
			late := callOf(b, "call-3")

			lose(j, s, a)
			if s.memory.subscribedAt(ofA) != a || s.memory.subscribedAt(ofB) != nil {
				t.Error("the subscriptions are not those to what there is")
			}
			if got := s.takeAttached(&s.outbox).items; len(got) != 1 || string(got[0].head) != "of a" {
				t.Errorf("%d messages wait for the client", len(got))
			}
			s.parkNow(late)
			for stream, there := range map[string]bool{"call-1": true, "call-2": false, "call-3": false} {
				if c := s.comeBack(t.Context(), stream); (c != nil) != there {
					t.Errorf("the stream %s can be taken up: %v", stream, c != nil)
				}
			}
			if got := s.takeAttached(&mixed.out).items; len(got) != 0 {
				t.Error("the stream of a call has what is of another service")
			}
			if _, err := s.attachmentTo(b); err == nil {
				t.Error("the service can be used")
			}
			b.Close()
		})
	}
}

// A service that was removed ends what clients without a session hear of it, so
// that they come again and see what there is.
func TestListenerEndsWithAServiceThatIsRemoved(t *testing.T) {
	j := NewJoin("join", "1", Options{})
	defer j.Close()
	a, b := newTestService("a"), newTestService("b")
	j.Arrange([]*Service{a, b})
	for _, service := range []*Service{a, b} {
		g := &listening{relay: j.Relay, client: &call{id: []byte("1")}}
		g.client.out.init()
		g.parts = []*part{{listening: g, service: service}}
		g.grants = reaches("ab")
		j.register(g, true)
		defer func() {
			if got := g.client.out.take().last; got != (service == b) {
				t.Errorf("the request to hear of %s has ended: %v", service.name, got)
			}
		}()
	}
	j.Arrange([]*Service{a})
}

func TestSessionHasABoundOfSubscriptions(t *testing.T) {
	j := NewJoin("join", "1", Options{})
	defer j.Close()
	a := newTestService("a")
	j.Arrange([]*Service{a})
	s := newTestSession(t, j, reaches("a"), a)
	asks := func(method string, i int) *wire.Message {
		t.Helper()
		m, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q,"params":{"uri":"x://%d"}}`, method, i))
		if err != nil {
			t.Fatal(err)
		}
		return &m
	}
	for i := range maxSubscriptions {
		m := asks("resources/subscribe", i)
		if err := s.memory.takes(m); err != nil {
			t.Fatal(err)
		}
		s.memory.subscribed(a, m)
	}
	if s.memory.takes(asks("resources/subscribe", maxSubscriptions)) == nil {
		t.Error("one more is taken")
	}
	if err := s.memory.takes(asks("resources/subscribe", 0)); err != nil {
		t.Errorf("one that there is: %v", err)
	}
	if err := s.memory.takes(asks("resources/read", maxSubscriptions)); err != nil {
		t.Errorf("another request: %v", err)
	}
	s.memory.learner(a, asks("resources/unsubscribe", 0))(nil)
	if err := s.memory.takes(asks("resources/subscribe", maxSubscriptions)); err != nil {
		t.Errorf("one in place of another: %v", err)
	}
}
