package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/shared/wire"
)

// Where requests stand alone a server cannot ask its client: it answers that it
// needs something, and the client makes the request again with that. For a
// server that knows only how to ask, its call goes on meanwhile, and what the
// client brings is the answer to its question.

const (
	// maxRounds is how many calls may wait for their clients at once.
	maxRounds = 256
	// roundTimeout is what a client has to come back.
	roundTimeout = 10 * time.Minute
	// inputName is the name of the one thing that a client is asked for.
	inputName = "input"
)

// round is a call that waits for its client to make the request again.
type round struct {
	number   uint64 // of the call
	call     *call
	question []byte      // the id of the server's request
	expiry   *time.Timer // gives it up
}

// park answers a request that stands alone with what the server asks.
func (m *mux) park(c *call, number uint64, question wire.Message) {
	id := question.Bytes(question.ID)
	if len(m.rounds) >= maxRounds {
		m.tell(failure(id, codeUnavailable, "too many clients are being asked for something"))
		return
	}
	input := map[string]any{"method": string(question.Method)}
	if params := question.Bytes(question.Params); params != nil {
		input["params"] = json.RawMessage(params)
	}
	state := rand.Text()
	result, err := json.Marshal(map[string]any{
		"resultType":    "input_required",
		"inputRequests": map[string]any{inputName: input},
		"requestState":  state,
	})
	if err != nil {
		m.tell(failure(id, wire.CodeInternal, err.Error()))
		return
	}
	s, clients := c.member, c.id
	delete(s.calls, string(clients))
	c.member, c.token = nil, nil
	m.rounds[state] = &round{number, c, id, time.AfterFunc(roundTimeout, func() { m.expire(state) })}
	s.client.answer(clients, success(clients, result))
}

// expire gives up a call whose client does not come back.
func (m *mux) expire(state string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.rounds[state]
	if r == nil {
		return
	}
	delete(m.rounds, state)
	delete(m.calls, r.number)
	m.tell(failure(r.question, codeUnavailable, "the client did not come back"))
	m.tell(cancelled(r.number, "the client did not come back"))
}

// resume takes a request that was made again: it is the call that waits for it
// from now on, and the server has its answer.
func (s *member) resume(ctx context.Context, message wire.Message, state string) error {
	var params struct {
		InputResponses map[string]json.RawMessage `json:"inputResponses"`
	}
	if err := json.Unmarshal(message.Bytes(message.Params), &params); err != nil {
		s.client.refuse(message, wire.CodeInvalidParams, err.Error())
		return nil
	}
	token, err := message.ProgressToken()
	if err != nil {
		s.client.refuse(message, wire.CodeInvalidParams, err.Error())
		return nil
	}
	s.mux.mu.Lock()
	r := s.mux.rounds[state]
	if r == nil || s.closed {
		s.mux.mu.Unlock()
		s.client.refuse(message, wire.CodeInvalidParams, "the requestState is of no request that waits")
		return nil
	}
	delete(s.mux.rounds, state)
	r.expiry.Stop()
	c := r.call
	c.member, c.id, c.token = s, message.Bytes(message.ID), message.Bytes(token)
	s.calls[string(c.id)] = r.number
	early := c.early
	s.mux.mu.Unlock()
	if early != nil { // the server did without
		s.mux.receive(*early)
		return nil
	}
	answer := failure(r.question, wire.CodeInvalidParams, "the client did not say what it was asked for")
	if response, ok := params.InputResponses[inputName]; ok {
		answer = success(r.question, response)
	}
	return s.mux.server.send(ctx, answer)
}

// stateOf is the requestState of a request that was made again.
func stateOf(message wire.Message) string {
	span, err := message.Param("requestState")
	if err != nil {
		return ""
	}
	state, _ := wire.Text(message.Bytes(span))
	return string(state)
}

// capabilitiesOf are those that a request itself names, as it must.
func capabilitiesOf(message wire.Message) (can capabilities, err error) {
	span, err := message.Param("_meta", mcp.MetaKeyClientCapabilities)
	switch {
	case err != nil:
		return can, err
	case !span.Found():
		return can, fmt.Errorf("%q is missing in the _meta of the request", mcp.MetaKeyClientCapabilities)
	}
	return can, json.Unmarshal(message.Bytes(span), &can)
}

// cancelled is the notification that nobody waits for a call any more.
func cancelled(number uint64, reason string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":%q}}`, number, reason)
}
