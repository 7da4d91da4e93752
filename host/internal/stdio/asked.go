package stdio

import (
	"context"
	"errors"
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

// answer passes on what the client answers, if that is still wanted.
func (s *session) answer(ctx context.Context, answer wire.Message) {
	s.mu.Lock()
	id, revision := s.id, s.revision
	_, wanted := s.asked[string(answer.Bytes(answer.ID))]
	delete(s.asked, string(answer.Bytes(answer.ID)))
	s.mu.Unlock()
	if wanted {
		s.tellIn(ctx, answer, id, revision)
	}
}

// tell passes on what is about a call or a question. With its session that is
// gone as well: in the next one another may have its id.
func (s *session) tell(ctx context.Context, message wire.Message) {
	id, revision := s.state()
	s.tellIn(ctx, message, id, revision)
}

func (s *session) tellIn(ctx context.Context, message wire.Message, id, revision string) {
	err := s.once(ctx, message, id, revision, s.deliver)
	var unsent *unsentError
	if err != nil && !errors.As(err, &unsent) && !errors.Is(err, errNoSession) {
		s.lost(ctx, err)
	}
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
