//go:build unix

package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/bridge"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// A server that answers and ends at once has answered.
func TestLastWordsOfAServerReachItsClient(t *testing.T) {
	t.Parallel()
	const script = `read line; echo '{"jsonrpc":"2.0","id":1,"result":{}}'`
	h := hostTarget(t, bridge.Target{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Isolated: true})
	for range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		stream, err := plughostv1.NewMCPClient(h.conn).Session(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&plughostv1.Frame{Message: []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)}); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatalf("the answer is lost: %v", err)
		}
		if _, err := stream.Recv(); err == nil {
			t.Fatal("the session goes on without its server")
		}
		cancel()
	}
}

func TestClientThatDoesNotReadIsNotWaitedForAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancelCause(t.Context())
		c := newClient(&shared.Work{}, end)
		c.put([]byte("unread"))
		go func() {
			_ = c.run(ctx, func(*plughostv1.Frame) error {
				<-ctx.Done()
				return nil
			})
		}()
		c.finish(errServerEnded)
		<-ctx.Done()
		if err := context.Cause(ctx); !errors.Is(err, errServerEnded) {
			t.Errorf("the session ends since %v", err)
		}
	})
}
