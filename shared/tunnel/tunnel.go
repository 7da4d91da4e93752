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
// the RPC's handler return, which so cannot wait for the session itself.
func Transport(stream Stream, closeStream func()) mcp.Transport {
	return &transport{stream: stream, closeStream: closeStream}
}

type transport struct {
	stream      Stream
	closeStream func()
}

func (t *transport) Connect(context.Context) (mcp.Connection, error) {
	return &connection{
		stream:      t.stream,
		closeStream: t.closeStream,
		closed:      make(chan struct{}),
		sending:     make(chan struct{}, 1),
	}, nil
}

// connection implements mcp.Connection.
type connection struct {
	stream      Stream
	closeStream func()
	closed      chan struct{}
	closeOnce   sync.Once
	sending     chan struct{} // holds one while a Send is under way: gRPC allows no more
}

// Read ends with the stream, which Close ends, and not with its context: Recv
// knows none, and a goroutine for it is one more that each session has.
func (c *connection) Read(context.Context) (jsonrpc.Message, error) {
	frame, err := c.stream.Recv()
	if err != nil {
		return nil, streamError(err)
	}
	message, err := decode(frame.GetMessage())
	if err != nil {
		return nil, fmt.Errorf("cannot decode a frame of %d bytes: %w", len(frame.GetMessage()), err)
	}
	if request, ok := message.(*jsonrpc.Request); ok {
		request.Extra = c.extra(frame, request)
	}
	return message, nil
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
		return c.endOr(err)
	case <-c.closed:
		return mcp.ErrConnectionClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// endOr is the error of a Send, or that the session has ended, which is why a Send
// under way fails then.
func (c *connection) endOr(err error) error {
	select {
	case <-c.closed:
		if err != nil {
			return mcp.ErrConnectionClosed
		}
	default:
	}
	return err
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
