package relay

import (
	"context"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/shared/wire"
)

// newTestLane returns a lane of which the test plays the stream, and a call that
// it has, with where to read what is told of its end.
func newTestLane(t *testing.T) (n *lane, c *call, m *wire.Message, outcome *string) {
	t.Helper()
	service := NewService("a", config.Tools{}, hclog.NewNullLogger())
	t.Cleanup(service.Close)
	l := &link{backend: &backend{service: service}, sending: make(chan struct{}, 1), calls: make(map[int64]*call)}
	l.ctx, l.cancel = context.WithCancel(t.Context())
	n = &lane{link: l, relay: &Relay{}}
	scanned, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`))
	if err != nil {
		t.Fatal(err)
	}
	c, outcome = newCall(&scanned), new(string)
	c.ended = func(what string) { *outcome = what }
	if err := n.begin(c); err != nil {
		t.Fatal(err)
	}
	return n, c, &scanned, outcome
}

// The client of a call may leave before it is sent, and while it is. What then
// ends it is that its lane does.
func TestCallThatEndsSinceItsClientHasLeftIsCancelled(t *testing.T) {
	t.Run("while it waits to be sent", func(t *testing.T) {
		n, c, m, outcome := newTestLane(t)
		n.sending <- struct{}{}
		ctx, leave := context.WithCancel(t.Context())
		leave()
		n.sendCall(ctx, c, m, nil)
		if *outcome != OutcomeCancelled {
			t.Errorf("it is told of as %q", *outcome)
		}
	})
	t.Run("while it is sent", func(t *testing.T) {
		n, c, _, outcome := newTestLane(t)
		n.drop(c)
		if n.alive() {
			t.Error("the send goes on")
		}
		n.fail(c, n.backend.service.errLost())
		if *outcome != OutcomeCancelled {
			t.Errorf("it is told of as %q", *outcome)
		}
	})
	t.Run("but not if the plugin ended", func(t *testing.T) {
		n, c, m, outcome := newTestLane(t)
		n.cancel()
		n.sendCall(t.Context(), c, m, nil)
		if *outcome != OutcomeError {
			t.Errorf("it is told of as %q", *outcome)
		}
	})
}
