package relay

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"

	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
	"github.com/plughost/plughost/shared/wire"
)

// link is a stream to an instance of the plugin, with the calls in flight on it.
type link struct {
	backend *backend
	owner   owner
	stream  grpc.BidiStreamingClient[plughostv1.Frame, plughostv1.Frame]
	ctx     context.Context // ended with the stream
	cancel  context.CancelFunc
	sending chan struct{} // holds one while a frame is sent: gRPC allows no more
	posting posting
	asked   int // of the client, not answered yet; the session's lock guards it

	mu    sync.Mutex
	count int64
	calls map[int64]*call // nil when the link has ended
}

// owner is whom a link is for. Its methods must not wait.
type owner interface {
	// received takes a request or a notification of the plugin.
	received(*link, *plughostv1.Frame, *wire.Message)
	// lost is told that the link has ended, before its calls fail.
	lost(*link)
}

// open opens a link. A plugin that takes no more streams is waited for until ctx
// ends.
func (b *backend) open(ctx context.Context, o owner) (*link, error) {
	l := &link{backend: b, owner: o, sending: make(chan struct{}, 1), calls: make(map[int64]*call)}
	l.ctx, l.cancel = context.WithCancel(b.ctx)
	waited := context.AfterFunc(ctx, l.cancel)
	stream, err := b.client.Session(l.ctx)
	if !waited() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		l.cancel()
		return nil, b.service.unavailable(fmt.Sprintf("no stream to it can be opened: %v", err))
	}
	l.stream = stream
	if !b.service.run(l.receive) {
		l.cancel()
		return nil, b.service.unavailable("the host is shutting down")
	}
	return l, nil
}

func (l *link) alive() bool { return l.ctx.Err() == nil }

// receive hands over what comes until the stream ends. Then all calls that are
// still in flight fail.
func (l *link) receive() {
	for {
		frame, err := l.stream.Recv()
		if err != nil || !l.take(frame) {
			break
		}
	}
	l.cancel()
	l.owner.lost(l)
	l.mu.Lock()
	lost := l.calls
	l.calls = nil
	l.mu.Unlock()
	for _, c := range lost {
		c.fail(l.backend.service.errLost())
	}
}

// take handles one frame, and reports whether the plugin makes sense.
func (l *link) take(frame *plughostv1.Frame) bool {
	if closing := frame.GetCloseStream(); closing != nil {
		if c := l.call(frame.GetRequest()); c != nil && c.stream != "" {
			c.out.hangUp(time.Duration(closing.GetRetryAfter()) * time.Millisecond)
		}
		return true
	}
	m, err := wire.Scan(frame.GetMessage())
	if err != nil {
		l.backend.service.log.Error("the plugin sent what is no message; its session is opened again", "reason", err)
		return false
	}
	if m.Kind != wire.Response {
		l.owner.received(l, frame, &m)
		return true
	}
	if c := l.answered(m.Bytes(m.ID)); c != nil {
		c.finish(&m)
	}
	return true
}

// begin puts a call into the table, and gives it the id by which the plugin
// knows it.
func (l *link) begin(c *call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		return l.backend.service.unavailable("its session has just ended")
	}
	l.count++
	c.link, c.number = l, l.count
	l.calls[c.number] = c
	return nil
}

// forget takes a call out of the table, and reports whether it was there.
func (l *link) forget(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, there := l.calls[c.number]
	delete(l.calls, c.number)
	return there
}

func (l *link) call(number int64) *call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[number]
}

// answered takes the call out of the table that has this id.
func (l *link) answered(id []byte) *call {
	number, err := strconv.ParseInt(string(id), 10, 64)
	if err != nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.calls[number]
	delete(l.calls, number)
	return c
}

// find returns a call for which ok holds, the youngest if there are several.
func (l *link) find(ok func(*call) bool) (found *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		if (found == nil || c.number > found.number) && ok(c) {
			found = c
		}
	}
	return found
}

// send sends a message. What holds it up is a plugin that does not read: the
// wait for one's turn ends with ctx, and a send under way with the link.
func (l *link) send(ctx context.Context, message []byte) error {
	if err := l.turn(ctx, nil); err != nil {
		return err
	}
	defer func() { <-l.sending }()
	return l.write(message, nil)
}

// write sends a message when it is its turn.
func (l *link) write(message []byte, header map[string]string) error {
	if err := l.stream.Send(&plughostv1.Frame{Message: message, Header: header}); err != nil {
		return l.backend.service.errLost() // why is with the receiver
	}
	return nil
}

// closeSend tells the plugin that nothing more comes.
func (l *link) closeSend(ctx context.Context) error {
	if err := l.turn(ctx, nil); err != nil {
		return err
	}
	defer func() { <-l.sending }()
	return l.stream.CloseSend()
}

// turn waits until nobody else sends. What is to be sent may be over before.
func (l *link) turn(ctx context.Context, over <-chan struct{}) error {
	select {
	case l.sending <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-over:
		return errCancelled
	case <-l.ctx.Done():
		return l.backend.service.errLost()
	}
	if !l.alive() { // what is cancelled may still be sent on for a moment
		<-l.sending
		return l.backend.service.errLost()
	}
	return nil
}

// sendCall sends the request of a call that has begun. The call fails if that
// cannot be done.
func (l *link) sendCall(ctx context.Context, c *call, m *wire.Message, header map[string]string) {
	err := l.turn(ctx, c.out.over)
	if err == nil {
		if err = errCancelled; !c.cancelled.Load() { // else the plugin may have been told before it is called
			err = l.write(m.Replace(nil, m.ID, number(c.number)), header)
		}
		<-l.sending
	}
	if err != nil {
		if ctx.Err() != nil { // the client has left, which may have ended the link
			c.cancelled.Store(true)
		}
		l.fail(c, err)
	}
}

// fail ends a call without an answer, unless it has one. A late answer is dropped.
func (l *link) fail(c *call, why error) {
	if l.forget(c) {
		c.fail(why)
	}
}

// refuse answers a request of the plugin that cannot be passed on. It does not
// wait.
func (l *link) refuse(m *wire.Message, code int, reason string) {
	l.post(errorMessage(m.Bytes(m.ID), &refusal{code: code, reason: reason}))
}

func number(n int64) []byte { return strconv.AppendInt(nil, n, 10) }
