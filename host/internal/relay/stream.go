package relay

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
	"github.com/plughost/plughost/shared/tunnel"
	"github.com/plughost/plughost/shared/wire"
)

// Client is a client that has a stream of frames of its own, in the place of
// HTTP. Its session lasts as long as the stream.
type Client struct {
	session *session
	stream  tunnel.Stream
	// check has a request go on as it returns it, or refuses it.
	check   func(*wire.Message) (*wire.Message, error)
	sending sync.Mutex // gRPC allows one at a time
	// requests counts those that are not answered yet, or whose answer the client has
	// not taken.
	requests atomic.Int64
}

// Attach makes a client of a stream, who may reach what is granted.
func (r *Relay) Attach(stream tunnel.Stream, g Grants, check func(*wire.Message) (*wire.Message, error)) *Client {
	s := newSession(r, "", g)
	s.listener = &s.cancel // it always listens
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		s.cancel()
	}
	r.attached[s] = struct{}{}
	return &Client{session: s, stream: stream, check: check}
}

// Grant changes what the client may reach, and tells it of what is different.
func (c *Client) Grant(g Grants) { c.session.grant(g) }

// Serve serves the client until ctx, its stream or the relay ends. The end of ctx
// has to end the stream.
func (c *Client) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(c.session.ctx, cancel)()
	var serving sync.WaitGroup
	defer serving.Wait()
	defer c.session.end() // and with it what requests wait for
	defer cancel()
	serving.Go(func() { c.pump(ctx, &c.session.outbox) })
	for {
		frame, err := c.stream.Recv()
		if err != nil {
			return err
		}
		m, err := wire.Scan(frame.GetMessage())
		if err != nil {
			return err
		}
		switch m.Kind {
		case wire.Request:
			made, err := c.begin(&m)
			if err != nil {
				c.send(errorMessage(m.Bytes(m.ID), err))
				continue
			}
			serving.Go(func() {
				defer c.requests.Add(-1)
				c.serve(ctx, made, &m)
			})
		case wire.Notification:
			c.session.takeNotification(&m)
		default:
			if q, ok := c.session.takeQuestion(m.Bytes(m.ID)); ok {
				serving.Go(func() { q.answer(ctx, &m) })
			}
		}
	}
}

// begin has the session know of a request at once: its cancellation may come next.
func (c *Client) begin(m *wire.Message) (*call, error) {
	if c.requests.Add(1) > int64(c.session.relay.maxCalls()) {
		c.requests.Add(-1)
		return nil, errTooManyCalls
	}
	made := newCall(m)
	err := c.session.claim(made)
	if err != nil {
		c.requests.Add(-1)
	}
	return made, err
}

// serve answers a request, whose call the session has.
func (c *Client) serve(ctx context.Context, made *call, m *wire.Message) {
	if err := c.make(ctx, made, m); err != nil {
		c.session.release(made)
		c.send(errorMessage(made.id, err))
		return
	}
	c.pump(ctx, &made.out)
}

func (c *Client) make(ctx context.Context, made *call, m *wire.Message) error {
	s := c.session
	s.relay.router.know(ctx, s.granted(), m)
	m, err := c.check(m)
	if err != nil {
		return err
	}
	if string(m.Method) == "initialize" && s.memory.revision() == "" {
		if err := s.memory.takes(m); err != nil {
			return err
		}
		return s.relay.router.open(ctx, s, made, m, nil)
	}
	return s.make(ctx, made, m, nil)
}

// pump sends what is taken from an outbox, until its last message or ctx ends.
func (c *Client) pump(ctx context.Context, out *outbox) {
	for {
		select {
		case <-out.wake:
		case <-ctx.Done():
			return
		}
		t := out.take()
		for _, i := range t.items {
			c.send(slices.Concat(i.head, i.id, i.tail))
		}
		if t.last {
			return
		}
	}
}

// send sends a message. If that cannot be done the stream has ended, as its
// reader sees.
func (c *Client) send(message []byte) {
	c.sending.Lock()
	defer c.sending.Unlock()
	_ = c.stream.Send(&plughostv1.Frame{Message: message})
}
