package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/plughost/plughost/shared"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
	"github.com/plughost/plughost/shared/wire"
)

// codeUnavailable is the JSON-RPC error of a request that cannot be taken, in
// the range left to implementations.
const codeUnavailable = -32000

// Bounds of what waits for a client that does not read. A single message may be
// larger.
const (
	maxWaiting      = 4096
	maxWaitingBytes = 64 << 20
)

// lastWords is what a client has to read what a server said before it ended.
const lastWords = time.Second

var (
	errSlow     = errors.New("the client does not read what it is sent")
	errEnding   = errors.New("the server is shutting down")
	errIDInUse  = errors.New("the id is that of another request in flight")
	errNoClient = errors.New("the session has ended")
)

// client is the client of one session: what waits to be sent to it, and which
// of its requests are in flight. Nobody waits for a client.
type client struct {
	work *shared.Work
	end  context.CancelCauseFunc // ends the session

	mu     sync.Mutex
	queue  []*plughostv1.Frame
	size   int
	last   error             // ends the session when all before it was sent; nil if nothing does
	filled chan struct{}     // holds one if there may be something
	open   map[string]func() // ends the work of a request, by its id; nil once closed

	gone chan struct{} // closed by close
}

func newClient(work *shared.Work, end context.CancelCauseFunc) *client {
	return &client{work: work, end: end, filled: make(chan struct{}, 1), open: make(map[string]func()), gone: make(chan struct{})}
}

// begin takes note of a request, or says why it is refused.
func (c *client) begin(id []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		return errNoClient
	}
	if _, used := c.open[string(id)]; used {
		return errIDInUse
	}
	end, ok := c.work.Begin()
	if !ok {
		return errEnding
	}
	c.open[string(id)] = end
	return nil
}

// done says that a request is not in flight any more.
func (c *client) done(id []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(id)
}

func (c *client) forget(id []byte) {
	if end, ok := c.open[string(id)]; ok {
		end()
		delete(c.open, string(id))
	}
}

// close says that nothing is in flight any more.
func (c *client) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, end := range c.open {
		end()
	}
	c.open = nil
	close(c.gone)
}

// finish ends the session for a reason, once all that waits was sent. Nobody waits
// long for a client that does not read.
func (c *client) finish(reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last != nil {
		return
	}
	c.last = reason
	c.wake()
	time.AfterFunc(lastWords, func() { c.end(reason) })
}

// put has a message sent, after those before it. It keeps the bytes.
func (c *client) put(message []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.enqueue(&plughostv1.Frame{Message: message})
}

// putFor is put for a message that is sent in the course of a request, whose id
// may be nil.
func (c *client) putFor(id, message []byte) {
	frame := &plughostv1.Frame{Message: message}
	if number, err := strconv.ParseInt(string(id), 10, 64); err == nil {
		frame.Request = &number
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.enqueue(frame)
}

func (c *client) enqueue(frame *plughostv1.Frame) {
	size := len(frame.GetMessage())
	if len(c.queue) >= maxWaiting || len(c.queue) > 0 && c.size+size > maxWaitingBytes {
		c.end(errSlow)
		return
	}
	c.queue, c.size = append(c.queue, frame), c.size+size
	c.wake()
}

// wake has run look for what waits. The lock is held.
func (c *client) wake() {
	select {
	case c.filled <- struct{}{}:
	default:
	}
}

// answer has the answer to a request sent. The request counts as in flight
// until the answer is on its way, and its id is free when the client sees it.
func (c *client) answer(id, message []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.enqueue(&plughostv1.Frame{Message: message})
	c.forget(id)
}

// deliver has a message of a server sent that has no other session.
func (c *client) deliver(m wire.Message) {
	if m.Kind == wire.Response {
		m = c.asAsked(m)
		c.answer(m.Bytes(m.ID), m.Raw)
		return
	}
	c.put(m.Raw)
}

// asAsked is an answer under the id of a request in flight, if it is one's.
func (c *client) asAsked(m wire.Message) wire.Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := m.Bytes(m.ID)
	if _, own := c.open[string(id)]; own {
		return m
	}
	if _, own := c.open[string(unquoted(id))]; own {
		m, _ = answerTo(m, unquoted(id))
	}
	return m
}

// deliverFor has a message of a server sent that belongs to a request.
func (c *client) deliverFor(id []byte, m wire.Message) {
	if m.Kind == wire.Response {
		c.answer(id, m.Raw)
		return
	}
	c.putFor(id, m.Raw)
}

// fail answers a request that was not begun, or cannot be answered otherwise.
func (c *client) fail(id []byte, code int, reason string) { c.put(failure(id, code, reason)) }

// succeed answers a request with a result.
func (c *client) succeed(request wire.Message, result []byte) {
	id := request.Bytes(request.ID)
	c.answer(id, success(id, result))
}

// refuse answers a request with an error.
func (c *client) refuse(request wire.Message, code int, reason string) {
	id := request.Bytes(request.ID)
	c.answer(id, failure(id, code, reason))
}

// failure is the answer of a request that failed.
func failure(id []byte, code int, reason string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, id, code, jsonText(reason))
}

// jsonText is a text as JSON has it.
func jsonText(text string) []byte {
	encoded, err := json.Marshal(text)
	if err != nil { // of a string: there is none
		return []byte(`"internal error"`)
	}
	return encoded
}

// success is the answer of a request with a result, which is JSON.
func success(id, result []byte) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

// run sends until ctx ends, the session is finished or the client is gone.
func (c *client) run(ctx context.Context, send func(*plughostv1.Frame) error) error {
	for {
		select {
		case <-c.filled:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		frames, last := c.take()
		for _, frame := range frames {
			if err := send(frame); err != nil {
				return err
			}
		}
		if last != nil {
			return last
		}
	}
}

// take returns what waits, and why nothing comes after it, if that is so.
func (c *client) take() (frames []*plughostv1.Frame, last error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	frames = c.queue
	c.queue, c.size = nil, 0
	return frames, c.last
}
