package main

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/plughost/plughost/shared"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
	"github.com/plughost/plughost/shared/release"
	"github.com/plughost/plughost/shared/wire"
)

// upstream is a server as one session sees it.
type upstream interface {
	// send passes a message of the client on. It may wait for the server to
	// take it. An error ends the session.
	send(ctx context.Context, m wire.Message) error
	// close ends the session and gives up what it has in flight.
	close()
}

// sessions implements the MCP service of the protocol.
type sessions struct {
	plughostv1.UnimplementedMCPServer
	backend  backend
	work     *shared.Work
	releaser release.Releaser
}

type stream = grpc.BidiStreamingServer[plughostv1.Frame, plughostv1.Frame]

// Session relays one session. Both directions run beside it, so that its return
// ends them: neither Send nor Recv knows another end than that of the stream.
func (s *sessions) Session(stream stream) error {
	ctx, end := context.WithCancelCause(stream.Context())
	defer end(nil)
	defer s.releaser.Ended()
	c := newClient(s.work, end)
	defer c.close()
	up, err := s.backend.open(c)
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	defer up.close()
	go func() { end(c.run(ctx, stream.Send)) }()
	go func() {
		err := receive(ctx, stream, c, up)
		if errors.Is(err, errServerEnded) && pause(ctx, lastWords) == nil {
			c.finish(err) // it only does not read any more
			return
		}
		end(err)
	}()
	<-ctx.Done()
	err = context.Cause(ctx)
	if errors.Is(err, io.EOF) || stream.Context().Err() != nil {
		return nil
	}
	return status.Error(codes.Unavailable, err.Error())
}

// receive passes on what the client sends, until the stream or the session ends.
func receive(ctx context.Context, stream stream, c *client, up upstream) error {
	for {
		frame, err := stream.Recv()
		if err != nil {
			return err
		}
		m, err := wire.Scan(frame.GetMessage())
		if err != nil {
			return err // the host scans what its clients send
		}
		if m.Kind == wire.Request && isWork(m.Method) {
			if err := c.begin(m.Bytes(m.ID)); err != nil {
				c.fail(m.Bytes(m.ID), codeUnavailable, err.Error())
				continue
			}
		}
		if err := up.send(ctx, m); err != nil {
			return err
		}
	}
}

// isWork tells the requests that a plugin which is to end finishes. A listener's
// lasts as long as its client likes.
func isWork(method []byte) bool { return string(method) != methodListen }
