package main

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/plughost/plughost/shared/wire"
)

func hasRoots(can capabilities) bool       { return can.Roots != nil }
func hasSampling(can capabilities) bool    { return can.Sampling != nil }
func hasElicitation(can capabilities) bool { return can.Elicitation != nil }

// abilities are what a client must have to be sent a request.
var abilities = map[string]func(capabilities) bool{
	"roots/list":             hasRoots,
	"sampling/createMessage": hasSampling,
	"elicitation/create":     hasElicitation,
}

// question takes a request of the server. The server knows of one client only,
// so it goes to the one whose call is in flight, and to nobody if that may be
// one of several.
func (m *mux) question(message wire.Message) {
	id := message.Bytes(message.ID)
	method := string(message.Method)
	if method == "ping" {
		m.tell(success(id, []byte("{}")))
		return
	}
	if m.sessionless() {
		m.tell(failure(id, wire.CodeMethodNotFound, method+": a server without sessions asks in its results"))
		return
	}
	able, known := abilities[method]
	if !known {
		able = func(capabilities) bool { return true }
	}
	callers := m.callers()
	candidates := slices.DeleteFunc(slices.Clone(callers), func(c caller) bool { return !able(c.can()) })
	switch {
	case len(candidates) == 1:
		m.pose(candidates[0], message)
	case len(candidates) > 1:
		m.tell(failure(id, codeUnavailable, fmt.Sprintf(
			`%s: %d clients have calls in flight, and nothing says which of them it is for; with sessions = "isolated" each has a server of its own`, method, len(candidates))))
	case len(callers) > 0:
		m.tell(failure(id, wire.CodeMethodNotFound, method+": the client whose call is in flight cannot do that"))
	case m.only(able) != nil:
		m.pose(caller{member: m.only(able)}, message)
	case method == "roots/list":
		m.tell(success(id, []byte(`{"roots":[]}`)))
	default:
		m.tell(failure(id, codeUnavailable, method+": no client has a call in flight"))
	}
}

// caller is a client with a call in flight for which the server may ask.
type caller struct {
	member *member
	// call is the one that stands alone, nil in a session.
	call   *call
	number uint64 // of call
}

func (c caller) can() capabilities {
	if c.call != nil {
		return c.call.can
	}
	return c.member.can
}

// callers are the sessions with a call in flight, and the calls that stand
// alone.
func (m *mux) callers() []caller {
	var callers []caller
	for number, c := range m.calls {
		switch {
		case c.member == nil || !c.asks:
		case c.alone:
			callers = append(callers, caller{c.member, c, number})
		case !slices.Contains(callers, caller{member: c.member}):
			callers = append(callers, caller{member: c.member})
		}
	}
	return callers
}

// only returns the one session whose client is able, nil if there are others.
func (m *mux) only(able func(capabilities) bool) *member {
	var found *member
	for s := range m.members {
		if !able(s.can) {
			continue
		}
		if found != nil {
			return nil
		}
		found = s
	}
	return found
}

func (m *mux) pose(c caller, message wire.Message) {
	if c.call != nil {
		m.park(c.call, c.number, message)
		return
	}
	m.asked[string(message.Bytes(message.ID))] = c.member
	c.member.client.putFor(c.member.asking(), message.Raw)
}

// asking is the id of the one call for which the server may ask the client, nil
// if there are several.
func (s *member) asking() []byte {
	var found *call
	for _, id := range s.calls {
		switch c := s.mux.calls[id]; {
		case c == nil || !c.asks:
		case found != nil:
			return nil
		default:
			found = c
		}
	}
	if found == nil {
		return nil
	}
	return found.id
}

// notified takes a notification of the server to whom it concerns.
func (m *mux) notified(message wire.Message) {
	switch string(message.Method) {
	case "notifications/progress":
		m.progressed(message)
	case "notifications/cancelled":
		m.withdrawn(message)
	case "notifications/message":
		m.logged(message)
	case "notifications/resources/updated":
		m.updated(message)
	case "notifications/tasks/status":
		m.taskChanged(message)
	case methodAcknowledged:
		m.acknowledged(message)
	default:
		m.tellAudience(message)
		for s := range m.members {
			s.tellListeners(message)
			if s.ready {
				s.client.put(message.Raw)
			}
		}
	}
}

// progressed passes progress on under the client's own token. What comes after
// the answer, or after the client gave up, is dropped: it would be of nothing
// that the client knows.
func (m *mux) progressed(message wire.Message) {
	span, err := message.ProgressToken()
	if err != nil || !span.Found() {
		return
	}
	id, err := strconv.ParseUint(string(unquoted(message.Bytes(span))), 10, 64)
	if err != nil {
		return
	}
	c := m.calls[id]
	if c == nil || c.token == nil {
		return
	}
	c.hear(message.Replace(nil, span, c.token))
}

// withdrawn passes on that the server does not need an answer any more.
func (m *mux) withdrawn(message wire.Message) {
	span, err := message.CancelledID()
	if err != nil {
		return
	}
	id := string(message.Bytes(span))
	if s := m.asked[id]; s != nil {
		delete(m.asked, id)
		s.client.put(message.Raw)
	}
}
