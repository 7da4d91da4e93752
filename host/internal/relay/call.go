package relay

import (
	"encoding/json"
	"fmt"

	"github.com/plughost/plughost/shared/wire"
)

// codeUnavailable is the JSON-RPC error of a call that a service cannot take,
// in the range left to implementations.
const codeUnavailable = -32000

// call is a client's request in flight.
type call struct {
	id     []byte // the client's own, as it wrote it; nil if it is the relay's
	link   *link
	number int64  // by which the plugin knows it
	token  []byte // of its progress, if the client wants to hear of it
	out    outbox

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
}

// fail ends the call without an answer of the plugin.
func (c *call) fail(why error) {
	c.end(OutcomeError)
	if c.settle != nil {
		c.settle(nil)
	}
	c.out.close(item{head: errorMessage(c.id, codeUnavailable, why.Error())})
}

// errorMessage makes a response that is an error.
func errorMessage(id []byte, code int, reason string) []byte {
	if len(id) == 0 {
		id = []byte("null")
	}
	object, err := json.Marshal(errorObject{code, reason})
	if err != nil { // it holds nothing that could make it fail
		return nil
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":%s}`, id, object)
}

type errorObject struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}
