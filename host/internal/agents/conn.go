package agents

import (
	"context"
	"fmt"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// lostError is the error of a request that lost its agent.
type lostError struct{ agent string }

func (e *lostError) Error() string {
	return fmt.Sprintf("agent %s ended during the request, which is not repeated: it may have been carried out", e.agent)
}

func (e *lostError) Unwrap() error { return a2a.ErrServerError }

// maxAnswer bounds an answer of an agent, in bytes, which the host has in memory
// whole.
const maxAnswer = 32 << 20

// agentConn is a connection to an agent that says of a request which lost the
// agent that it did.
type agentConn struct {
	grpc.ClientConnInterface
	name string
}

func (c *agentConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	opts = append(opts, grpc.MaxCallRecvMsgSize(maxAnswer))
	return c.explain(ctx, c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...))
}

func (c *agentConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	opts = append(opts, grpc.MaxCallRecvMsgSize(maxAnswer))
	stream, err := c.ClientConnInterface.NewStream(ctx, desc, method, opts...)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	return &agentStream{stream, c, ctx}, nil
}

type agentStream struct {
	grpc.ClientStream
	conn *agentConn
	ctx  context.Context // the request's; the stream's own ends with it
}

func (s *agentStream) RecvMsg(m any) error {
	return s.conn.explain(s.ctx, s.ClientStream.RecvMsg(m))
}

// explain finds the errors that gRPC makes of a lost connection. What it returns
// for them is no status of gRPC, and so passes through a2a-go as it is.
func (c *agentConn) explain(ctx context.Context, err error) error {
	code := status.Code(err)
	if code == codes.Unavailable || code == codes.Canceled && ctx.Err() == nil {
		return &lostError{agent: c.name}
	}
	return err
}
