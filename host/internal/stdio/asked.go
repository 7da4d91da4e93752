package stdio

import (
	"context"
	"fmt"

	"github.com/plughost/plughost/shared/wire"
)

// heard reads a message of the host's, and takes note of what the client is asked.
func (s *session) heard(data []byte) wire.Message {
	m, err := wire.Scan(data)
	if err != nil {
		return m
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case m.Kind == wire.Request:
		s.asked[string(m.Bytes(m.ID))] = struct{}{}
	case m.Kind == wire.Notification && string(m.Method) == methodCancelled:
		if id, err := m.CancelledID(); err == nil {
			delete(s.asked, string(m.Bytes(id)))
		}
	}
	return m
}

// answered takes note that the client has answered.
func (s *session) answered(answer wire.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asked, string(answer.Bytes(answer.ID)))
}

// withdraw tells the client that what it was asked in a session that is gone
// needs no answer. The next session's requests may have the same ids.
func (s *session) withdraw() {
	s.mu.Lock()
	asked := s.asked
	s.asked = make(map[string]struct{})
	s.mu.Unlock()
	for id := range asked {
		s.deliver(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":"the host has ended"}}`, id))
	}
}

// cancelled passes on that the client gave up a request, once: with its session
// the request is gone as well.
func (s *session) cancelled(ctx context.Context, message wire.Message) {
	id, revision := s.state()
	_ = s.once(ctx, message, id, revision, s.deliver)
}
