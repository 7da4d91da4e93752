package agents

import (
	"context"
	"fmt"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// agentConn is a connection to an agent that says of a request which lost the
// agent that it did.
type agentConn struct {
	grpc.ClientConnInterface
	name string
}

func (c *agentConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return c.explain(ctx, c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...))
}

func (c *agentConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
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

// explain turns the errors that gRPC makes of a lost connection into one of
// A2A's, by the details in which A2A looks for it.
func (c *agentConn) explain(ctx context.Context, err error) error {
	switch status.Code(err) {
	case codes.Unavailable:
	case codes.Canceled:
		if ctx.Err() != nil {
			return err // by the client
		}
	default:
		return err
	}
	lost := status.New(codes.Internal, fmt.Sprintf("agent %s ended during the request, which is not repeated: it may have been carried out", c.name))
	if detailed, err := lost.WithDetails(&errdetails.ErrorInfo{
		Reason: a2a.ErrorReason(a2a.ErrServerError),
		Domain: a2a.ProtocolDomain,
	}); err == nil {
		lost = detailed
	}
	return lost.Err()
}
