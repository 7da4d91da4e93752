package agents

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"

	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// exitGrace is how long after the loss of a connection the exit of the process
// is awaited, which is told by another way.
const exitGrace = 2 * time.Second

// Plugin is what a Front needs of a running instance of its agent.
type Plugin interface {
	Conn() *grpc.ClientConn
	Describe() *plughostv1.DescribeResponse
	// Exited is closed when the plugin's process has ended.
	Exited() <-chan struct{}
	// ExitError says how, once it has: nil for the exit status 0.
	ExitError() error
}

// instance is a running instance of an agent.
type instance struct {
	plugin Plugin
	transport
	life context.Context // ended with the process; its cause says how that ended
	end  context.CancelCauseFunc
}

// newInstance makes an instance that lasts no longer than ctx.
func newInstance(ctx context.Context, name string, plugin Plugin) *instance {
	conn := &agentConn{ClientConnInterface: plugin.Conn(), name: name}
	i := &instance{plugin: plugin, transport: a2agrpc.NewGRPCTransportFromClient(a2apb.NewA2AServiceClient(conn))}
	i.life, i.end = context.WithCancelCause(ctx)
	return i
}

// ended is how the process ended, or nil.
func (i *instance) ended() error {
	var ended *endedError
	if errors.As(context.Cause(i.life), &ended) {
		return ended
	}
	return nil
}

// await waits for the process to end after its connection was lost, within
// bounds: it may be the connection alone.
func (i *instance) await(ctx context.Context) {
	select {
	case <-i.life.Done():
	case <-ctx.Done():
	case <-time.After(exitGrace):
	}
}

// endedError says how an agent ended that had tasks in hand.
type endedError struct {
	agent string
	how   error // nil for the exit status 0
}

func (e *endedError) Error() string {
	how := "exit status 0"
	if e.how != nil {
		how = e.how.Error()
	}
	return fmt.Sprintf("the process of agent %s ended before this task did (%s)", e.agent, how)
}

func (e *endedError) Unwrap() error { return e.how }
