package relay

import (
	"time"

	"github.com/plughost/plughost/shared/wire"
)

// What came of a call of a tool.
const (
	OutcomeOK        = "ok"
	OutcomeToolError = "tool_error" // the tool says that it failed
	OutcomeError     = "error"      // it could not be called, or ended without an answer
	OutcomeCancelled = "cancelled"
)

// observe has the end of a call of a tool be told.
func (r *Relay) observe(c *call, rt route) {
	if r.options.Called == nil || rt.tool == "" {
		return
	}
	began := time.Now()
	c.ended = func(outcome string) {
		if rt.to.tool(rt.tool) != nil {
			r.options.Called(rt.to.name, rt.tool, outcome, time.Since(began))
		}
	}
}

// end tells of the call's end, if that is wanted.
func (c *call) end(outcome string) {
	if outcome == OutcomeError && c.cancelled.Load() {
		outcome = OutcomeCancelled
	}
	if c.ended != nil {
		c.ended(outcome)
	}
}

// outcomeOf says what an answer means.
func outcomeOf(answer *wire.Message) string {
	if answer.Error.Found() {
		return OutcomeError
	}
	at, err := answer.Find(answer.Result, "isError")
	if err == nil && string(answer.Bytes(at)) == "true" {
		return OutcomeToolError
	}
	return OutcomeOK
}

// Sessions is how many sessions there are.
func (r *Relay) Sessions() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sessions)
}
