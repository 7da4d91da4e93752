package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/plughost/plughost/shared/wire"
)

// member is one session of a server that serves several.
type member struct {
	mux    *mux
	client *client

	// The rest is guarded by the mux's lock.
	can        capabilities
	ready      bool              // it said that it is initialized
	calls      map[string]uint64 // in flight: ids at the server, by the client's
	level      logLevel          // what it asked for; noLevel if nothing
	subscribed map[string]bool   // the resources that it wants to hear of
	closed     bool
}

// send implements upstream.
func (s *member) send(ctx context.Context, message wire.Message) error {
	switch message.Kind {
	case wire.Request:
		return s.request(ctx, message)
	case wire.Notification:
		return s.notification(ctx, message)
	default:
		return s.reply(ctx, message)
	}
}

// request takes a request of the client: it is answered here, or passed on.
func (s *member) request(ctx context.Context, message wire.Message) error {
	switch string(message.Method) {
	case "initialize":
		s.initialize(message)
		return nil
	case "server/discover":
		// Sessions share what initialize settles, so there must be one.
		s.refuse(message, wire.CodeMethodNotFound, "this server is served to clients that initialize a session")
		return nil
	case "logging/setLevel":
		return s.setLevel(ctx, message)
	case "resources/subscribe":
		return s.subscribe(ctx, message)
	case "resources/unsubscribe":
		return s.unsubscribe(ctx, message)
	default:
		return s.forward(ctx, message, nil)
	}
}

// succeed answers a request with a result.
func (s *member) succeed(message wire.Message, result []byte) {
	id := message.Bytes(message.ID)
	s.client.answer(id, success(id, result))
}

// refuse answers a request with an error.
func (s *member) refuse(message wire.Message, code int, reason string) {
	id := message.Bytes(message.ID)
	s.client.answer(id, failure(id, code, reason))
}

// forward passes a request on. done, if it is not nil, is called with the lock
// held when the answer comes.
func (s *member) forward(ctx context.Context, message wire.Message, done func(answer wire.Message)) error {
	token, err := message.ProgressToken()
	if err != nil {
		s.refuse(message, wire.CodeInvalidParams, err.Error())
		return nil
	}
	id, open := s.add(message, token, done)
	if !open {
		return errNoClient
	}
	own := fmt.Append(nil, id)
	return s.mux.server.send(ctx, replaceBoth(message, message.ID, token, own))
}

// add takes note of a call.
func (s *member) add(message wire.Message, token wire.Span, done func(wire.Message)) (id uint64, open bool) {
	s.mux.mu.Lock()
	defer s.mux.mu.Unlock()
	if s.closed {
		return 0, false
	}
	c := &call{
		member: s,
		id:     message.Bytes(message.ID),
		token:  message.Bytes(token),
		asks:   mayAsk(message.Method),
		done:   done,
	}
	id = s.mux.add(c)
	s.calls[string(c.id)] = id
	return id, true
}

// mayAsk reports whether a server may need its client's help for a request.
func mayAsk(method []byte) bool {
	name := string(method)
	return name != "ping" && !strings.HasSuffix(name, "/list") && !strings.HasPrefix(name, "logging/")
}

// replaceBoth returns the message with the same bytes in the place of two
// values, of which the second may be missing.
func replaceBoth(m wire.Message, first, second wire.Span, value []byte) []byte {
	if !second.Found() {
		return m.Replace(nil, first, value)
	}
	if second.Start < first.Start {
		first, second = second, first
	}
	out := make([]byte, 0, len(m.Raw)+2*len(value))
	out = append(append(out, m.Raw[:first.Start]...), value...)
	out = append(append(out, m.Raw[first.End:second.Start]...), value...)
	return append(out, m.Raw[second.End:]...)
}

// notification takes a notification of the client.
func (s *member) notification(ctx context.Context, message wire.Message) error {
	switch string(message.Method) {
	case "notifications/initialized":
		s.mux.mu.Lock()
		s.ready = true
		s.mux.mu.Unlock()
		return nil
	case "notifications/cancelled":
		return s.cancel(ctx, message)
	case "notifications/roots/list_changed":
		if !s.alone() {
			return nil // the roots of one client are not those of the others
		}
	}
	return s.mux.server.send(ctx, message.Raw)
}

// alone reports whether this is the only session whose client has roots.
func (s *member) alone() bool {
	s.mux.mu.Lock()
	defer s.mux.mu.Unlock()
	return s.mux.only((*member).hasRoots) == s
}

// cancel gives up a call: an answer that comes all the same is dropped.
func (s *member) cancel(ctx context.Context, message wire.Message) error {
	span, err := message.CancelledID()
	if err != nil || !span.Found() {
		return nil // it is about no request
	}
	clients := message.Bytes(span)
	s.mux.mu.Lock()
	id, open := s.calls[string(clients)]
	delete(s.calls, string(clients))
	delete(s.mux.calls, id)
	s.mux.mu.Unlock()
	if !open {
		return nil // it was answered meanwhile
	}
	s.client.done(clients)
	return s.mux.server.send(ctx, message.Replace(nil, span, fmt.Append(nil, id)))
}

// reply takes the client's answer to a request of the server.
func (s *member) reply(ctx context.Context, message wire.Message) error {
	id := string(message.Bytes(message.ID))
	s.mux.mu.Lock()
	asked := s.mux.asked[id] == s
	if asked {
		delete(s.mux.asked, id)
	}
	s.mux.mu.Unlock()
	if !asked {
		return nil // it is too late, or was never asked
	}
	return s.mux.server.send(ctx, message.Raw)
}

// close implements upstream: the server hears that nobody waits any more.
func (s *member) close() {
	m := s.mux
	m.mu.Lock()
	defer m.mu.Unlock()
	s.closed = true
	delete(m.members, s)
	for _, id := range s.calls {
		delete(m.calls, id)
		m.tell(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":"the client has gone"}}`, id))
	}
	for id, asked := range m.asked {
		if asked == s {
			delete(m.asked, id)
			m.tell(failure([]byte(id), codeUnavailable, "the client has gone"))
		}
	}
	for uri := range s.subscribed {
		m.leave(uri)
	}
	m.followLevel()
}
