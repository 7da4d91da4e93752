package agentplugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"

	"github.com/plughost/plughost/shared/calldepth"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
	"github.com/plughost/plughost/shared/tunnel"
)

// openTimeout bounds how long Tools waits for the host, which opens the
// session as soon as the agent is ready.
const openTimeout = 10 * time.Second

// ErrNoHost is returned by Tools for a context that is not an executor's.
var ErrNoHost = errors.New("no plughost host behind this context: use the context given to the executor")

// ErrNoTools is returned by Tools when the host does not open the session.
var ErrNoTools = fmt.Errorf("the host did not open the session with the agent's tools within %v", openTimeout)

// Tools returns the MCP session on which the agent calls the tools that its
// configuration grants, named SERVICE__TOOL. ctx must be, or come from, the
// context given to the executor's Execute, Cancel or Cleanup.
//
// Ask for it anew for each task and do not close it: the host opens a new
// session when it restarts. Without one Tools waits, until ctx ends, upon which
// it returns an error that wraps ctx's, and for 10 seconds at most, upon which
// it returns ErrNoTools. An agent that was granted nothing has a session too,
// with no tools.
func Tools(ctx context.Context) (*mcp.ClientSession, error) {
	t, ok := ctx.Value(toolsKey{}).(*tools)
	if !ok {
		return nil, ErrNoHost
	}
	return t.wait(ctx)
}

type toolsKey struct{}

// tools implements the Host service of the protocol: the host opens the
// stream, and on it this end is the MCP client.
type tools struct {
	plughostv1.UnimplementedHostServer

	mu      sync.Mutex
	session *mcp.ClientSession
	changed chan struct{} // closed and renewed when session is set
}

func newTools() *tools {
	return &tools{changed: make(chan struct{})}
}

func (t *tools) Tools(stream grpc.BidiStreamingServer[plughostv1.Frame, plughostv1.Frame]) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "plughost-agent", Version: "1"}, nil)
	client.AddSendingMiddleware(sendDepth)
	session, err := client.Connect(ctx, tunnel.Transport(stream, cancel), nil)
	if err != nil {
		return fmt.Errorf("cannot open the session with the host's tools: %w", err)
	}
	t.set(session)
	defer t.unset(session)
	<-ctx.Done()
	return nil
}

// sendDepth is a middleware that has tool calls carry the depth of the request
// which they are made for.
func sendDepth(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		if depth := calldepth.FromContext(ctx); depth > 0 && method == "tools/call" {
			params := request.GetParams()
			params.SetMeta(calldepth.With(params.GetMeta(), depth))
		}
		return next(ctx, method, request)
	}
}

// set makes session the one that Tools returns; the host's newest wins.
func (t *tools) set(session *mcp.ClientSession) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.session = session
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *tools) unset(session *mcp.ClientSession) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.session == session {
		t.session = nil
	}
}

func (t *tools) wait(ctx context.Context) (*mcp.ClientSession, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, openTimeout, ErrNoTools)
	defer cancel()
	for {
		t.mu.Lock()
		session, changed := t.session, t.changed
		t.mu.Unlock()
		if session != nil {
			return session, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), ErrNoTools) {
				return nil, ErrNoTools
			}
			return nil, fmt.Errorf("the host has not opened the session with the agent's tools: %w", ctx.Err())
		}
	}
}
