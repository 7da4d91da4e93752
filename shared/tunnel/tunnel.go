// Package tunnel carries MCP sessions over gRPC streams of frames, one
// JSON-RPC message a frame. It is a Transport of the official Go SDK, so that
// every feature of the protocol passes through unchanged.
package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// Stream is either end of a bidirectional gRPC stream of frames.
type Stream interface {
	Send(*plughostv1.Frame) error
	Recv() (*plughostv1.Frame, error)
}

// Transport makes a transport of a stream, for one Connect of an MCP client
// or server. closeStream is called once when the session ends; it must end the
// stream, so that a Recv under way returns. On the client's end that is the
// cancel function of the stream's context; on the server's end it must make
// the RPC's handler return.
func Transport(stream Stream, closeStream func()) mcp.Transport {
	return &transport{stream: stream, closeStream: closeStream}
}

type transport struct {
	stream      Stream
	closeStream func()
}

func (t *transport) Connect(context.Context) (mcp.Connection, error) {
	c := &connection{
		stream:      t.stream,
		closeStream: t.closeStream,
		received:    make(chan received),
		closed:      make(chan struct{}),
		sending:     make(chan struct{}, 1),
	}
	go c.receive()
	return c, nil
}

type received struct {
	message jsonrpc.Message
	err     error
}

// connection implements mcp.Connection.
type connection struct {
	stream      Stream
	closeStream func()
	received    chan received
	closed      chan struct{}
	closeOnce   sync.Once
	sending     chan struct{} // holds one while a Send is under way: gRPC allows no more
}

// receive hands over what comes in until the stream or the session ends. It
// is a goroutine of its own since Recv knows no context.
func (c *connection) receive() {
	for {
		frame, err := c.stream.Recv()
		var message jsonrpc.Message
		if err == nil {
			if message, err = decode(frame.GetMessage()); err != nil {
				err = fmt.Errorf("cannot decode a frame of %d bytes: %w", len(frame.GetMessage()), err)
			}
			if request, ok := message.(*jsonrpc.Request); ok {
				request.Extra = c.extra(frame, request)
			}
		}
		select {
		case c.received <- received{message, streamError(err)}:
		case <-c.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case r := <-c.received:
		return r.message, r.err
	case <-c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write sends a message, and with it which request it belongs to.
func (c *connection) Write(ctx context.Context, message jsonrpc.Message) error {
	data, err := encode(message)
	if err != nil {
		return fmt.Errorf("cannot encode a message: %w", err)
	}
	frame := &plughostv1.Frame{Message: data}
	if _, ok := message.(*jsonrpc.Request); ok {
		related := relatedTo(ctx)
		frame.Request = &related
	}
	return c.send(ctx, frame)
}

// send sends a frame. A peer that does not read holds up the Send, which knows
// no context, so that is in a goroutine of its own: the end of ctx or of the
// session ends the wait. The frame may still be sent then.
func (c *connection) send(ctx context.Context, frame *plughostv1.Frame) error {
	select {
	case <-c.closed: // first, since a select takes any of those that can be
		return mcp.ErrConnectionClosed
	default:
	}
	select {
	case c.sending <- struct{}{}:
	case <-c.closed:
		return mcp.ErrConnectionClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	sent := make(chan error, 1)
	go func() {
		err := c.stream.Send(frame)
		<-c.sending
		sent <- streamError(err)
	}()
	select {
	case err := <-sent:
		return err
	case <-c.closed:
		return mcp.ErrConnectionClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *connection) Close() error {
	c.closeOnce.Do(func() {
		close(c.closed)
		c.closeStream()
	})
	return nil
}

func (c *connection) SessionID() string { return "" }

// streamError turns the end of the stream, as either side sees it, into the
// end of file that the SDK takes for an orderly end.
func streamError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), status.Code(err) == codes.Canceled:
		return io.EOF
	default:
		return err
	}
}
