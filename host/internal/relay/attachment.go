package relay

import (
	"context"
	"slices"
)

// attachment is what a session has of a service that it uses. The session's lock
// guards the link.
type attachment struct {
	service *Service
	opening chan struct{} // holds one while a link is opened
	link    *link         // the latest, nil at first
}

// attachmentTo returns what the session has of a service. There is none of one
// that is out of its reach.
func (s *session) attachmentTo(service *Service) (*attachment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.attachment(service); a != nil {
		return a, nil
	}
	if !s.relay.router.reaches(s.grants, service) {
		return nil, service.errGone()
	}
	a := &attachment{service: service, opening: make(chan struct{}, 1)}
	s.links = append(s.links, a)
	return a, nil
}

// attachment returns what the session has of a service, or nil. The lock is held.
func (s *session) attachment(service *Service) *attachment {
	for _, a := range s.links {
		if a.service == service {
			return a
		}
	}
	return nil
}

// detach ends what the session has of services that are out of its reach.
func (s *session) detach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	unreached := func(service *Service) bool { return !s.relay.router.reaches(s.grants, service) }
	s.links = slices.DeleteFunc(s.links, func(a *attachment) bool {
		gone := unreached(a.service)
		if gone && a.link != nil {
			a.link.cancel()
		}
		return gone
	})
	s.memory.forget(unreached, func(service *Service) bool { return !s.grants.Service(service.name) })
	s.keepAttached(&s.outbox)
	for _, c := range s.calls {
		s.keepAttached(&c.out)
	}
	s.abandonParked(func(c *call) bool { return !s.keeps(c) })
}

// keeps reports whether a call is of a service that the session has. The lock is
// held.
func (s *session) keeps(c *call) bool {
	return c.link == nil || s.attachment(c.link.backend.service) != nil
}

// keepAttached takes out what is of services that the session has no more. The lock
// is held.
func (s *session) keepAttached(out *outbox) {
	out.keep(func(i item) bool { return i.of == nil || s.attachment(i.of) != nil })
}

// takeAttached empties an outbox, and returns what is in it of services that the
// session has.
func (s *session) takeAttached(out *outbox) taken {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keepAttached(out)
	return out.take()
}

// uses reports whether the session has used a service.
func (s *session) uses(service *Service) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attachment(service) != nil
}

// used are the services that the session has used.
func (s *session) used() (services []*Service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.links {
		services = append(services, a.service)
	}
	return services
}

// linked are the session's links, the latest to each service.
func (s *session) linked() (links []*link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.links {
		if a.link != nil {
			links = append(links, a.link)
		}
	}
	return links
}

// attached returns the session's link to the instance of a service that can be
// called now, opening it if there is none.
func (s *session) attached(ctx context.Context, service *Service) (*link, error) {
	b, err := service.current()
	if err != nil {
		return nil, err
	}
	a, err := s.attachmentTo(service)
	if err != nil {
		return nil, err
	}
	if l := a.linkTo(s, b); l != nil {
		return l, nil
	}
	select {
	case a.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.ctx.Done():
		return nil, errEnded
	}
	defer func() { <-a.opening }()
	if l := a.linkTo(s, b); l != nil { // another call has opened it
		return l, nil
	}
	return s.restore(a, b)
}

// linkTo returns the session's link if it is a living one to this instance.
func (a *attachment) linkTo(s *session, b *backend) *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.link != nil && a.link.backend == b && a.link.alive() {
		return a.link
	}
	return nil
}

// adopt makes a link the session's.
func (a *attachment) adopt(s *session, l *link) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ctx.Err() != nil:
		l.cancel()
		return errEnded
	case s.attachment(a.service) != a:
		l.cancel()
		return a.service.errGone()
	case a.link != nil:
		a.link.cancel()
	}
	a.link = l
	return nil
}
