package relay

import (
	"sync/atomic"

	"github.com/plughost/plughost/shared/wire"
)

// call is a client's request in flight.
type call struct {
	id     []byte // the client's own, as it wrote it; nil if it is the relay's
	link   *link
	number int64  // by which the plugin knows it
	token  []byte // of its progress, if the client wants to hear of it
	stream string // the id by which the client can come back to its answer, or empty
	out    outbox
	// cancelled is set when the client does not want the answer any more.
	cancelled atomic.Bool
	parkedIn  atomic.Pointer[session] // in which it waits for its client, or nil

	// settle, if there is one, is told the answer before the client is. It is
	// nil if there is none, since the plugin is gone.
	settle func(answer *wire.Message)
	// edit, if there is one, makes the answer what the client may see.
	edit func(answer *wire.Message) *wire.Message
	// ended, if there is one, is told what came of the call.
	ended func(outcome string)
}

func newCall(m *wire.Message) *call {
	c := &call{id: append([]byte(nil), m.Bytes(m.ID)...)}
	c.out.init()
	return c
}

// finish takes the plugin's answer.
func (c *call) finish(answer *wire.Message) {
	c.end(outcomeOf(answer))
	if c.settle != nil {
		c.settle(answer)
	}
	if c.edit != nil && answer.Result.Found() {
		answer = c.edit(answer)
	}
	c.out.close(item{
		head:   answer.Raw[:answer.ID.Start],
		id:     c.id,
		tail:   answer.Raw[answer.ID.End:],
		status: statusOf(answer),
	})
	c.more()
}

// answer ends a call that no service took with a result.
func (c *call) answer(result []byte) {
	c.out.close(item{head: []byte(`{"jsonrpc":"2.0","id":`), id: c.id, tail: append(append([]byte(`,"result":`), result...), '}')})
}

// fail ends the call without an answer of the plugin.
func (c *call) fail(why error) {
	c.end(OutcomeError)
	if c.settle != nil {
		c.settle(nil)
	}
	c.out.close(item{head: errorMessage(c.id, why)})
	c.more()
}
