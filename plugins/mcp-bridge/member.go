package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
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
	listeners  map[string]*listener
	tasks      []string // it has begun, the oldest first
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
	if revision := revisionOf(message); revision != "" {
		return s.standingAlone(ctx, message, revision)
	}
	switch string(message.Method) {
	case "initialize":
		s.initialize(message)
		return nil
	case "server/discover":
		s.client.refuse(message, wire.CodeInvalidParams, "the request names no protocol version in its _meta")
		return nil
	case "logging/setLevel":
		return s.setLevel(ctx, message)
	case "resources/subscribe":
		return s.subscribe(ctx, message)
	case "resources/unsubscribe":
		return s.unsubscribe(ctx, message)
	case "tasks/list":
		s.client.refuse(message, wire.CodeMethodNotFound, "the server's tasks are those of all its clients")
		return nil
	case "tasks/get", "tasks/result", "tasks/cancel":
		return s.task(ctx, message)
	default:
		return s.forward(ctx, message, s.beginning(message))
	}
}

// beginning is the call of a request, which may begin a task.
func (s *member) beginning(message wire.Message) *call {
	c := &call{}
	if task, err := message.Param("task"); err == nil && task.Found() {
		c.done = func(answer wire.Message) { s.mux.begun(s, answer) }
	}
	return c
}

// forward passes a request on as the call c, which it completes.
func (s *member) forward(ctx context.Context, message wire.Message, c *call) error {
	token, err := message.ProgressToken()
	if err != nil {
		s.client.refuse(message, wire.CodeInvalidParams, err.Error())
		return nil
	}
	c.member, c.id, c.token = s, message.Bytes(message.ID), message.Bytes(token)
	c.asks = mayAsk(message.Method)
	id, open := s.add(c)
	if !open {
		return errNoClient
	}
	return s.mux.server.send(ctx, renumbered(message, token, id))
}

// renumbered is a request under another id, which is its progress token too if
// it has one.
func renumbered(request wire.Message, token wire.Span, number uint64) []byte {
	own := strconv.AppendUint(nil, number, 10)
	edits := []edit{{request.ID, own}}
	if token.Found() {
		edits = append(edits, edit{token, own})
	}
	return splice(request.Raw, edits...)
}

// add takes note of a call.
func (s *member) add(c *call) (id uint64, open bool) {
	s.mux.mu.Lock()
	defer s.mux.mu.Unlock()
	if s.closed {
		return 0, false
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

// edit puts other bytes in the place of some.
type edit struct {
	at    wire.Span
	value []byte
}

// splice returns a message with edits made, which do not overlap.
func splice(raw []byte, edits ...edit) []byte {
	slices.SortFunc(edits, func(a, b edit) int { return a.at.Start - b.at.Start })
	size, done := len(raw), 0
	for _, e := range edits {
		size += len(e.value)
	}
	out := make([]byte, 0, size)
	for _, e := range edits {
		out = append(append(out, raw[done:e.at.Start]...), e.value...)
		done = e.at.End
	}
	return append(out, raw[done:]...)
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
	return s.mux.only(hasRoots) == s
}

// cancel gives up a call: an answer that comes all the same is dropped.
func (s *member) cancel(ctx context.Context, message wire.Message) error {
	span, err := message.CancelledID()
	if err != nil || !span.Found() {
		return nil // it is about no request
	}
	clients := message.Bytes(span)
	s.mux.mu.Lock()
	if s.unlisten(clients) {
		s.mux.mu.Unlock()
		return nil
	}
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
		m.tell(cancelled(id, "the client has gone"))
	}
	for id, asked := range m.asked {
		if asked == s {
			delete(m.asked, id)
			m.tell(failure([]byte(id), codeUnavailable, "the client has gone"))
		}
	}
	for _, id := range s.tasks {
		m.forgetTask(s, id)
	}
	for uri := range s.subscribed {
		m.leave(uri)
	}
	for id := range s.listeners {
		s.unlisten([]byte(id))
	}
	m.followLevel()
}
