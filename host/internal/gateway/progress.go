package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// progressBuffer is how many notifications wait for a client that is slow to
// take them. Further ones are dropped.
const progressBuffer = 64

// progress brings a plugin's progress notifications back to the caller, under
// the caller's own token: tokens of different callers may be the same.
//
// It takes them off the connection as they are read. The SDK would handle them
// apart from the answers, which then come before the last of them.
type progress struct {
	mu    sync.Mutex
	count int
	calls map[string]chan<- *mcp.ProgressNotificationParams // by the token that the plugin knows
}

// begin returns the token to use for a call, and the function to call when the
// call was answered, which returns when the caller has what came before. ctx is
// the call's: by it the SDK finds the stream that the caller reads.
func (p *progress) begin(ctx context.Context, session *mcp.ServerSession, token any) (ours string, done func()) {
	notifications := make(chan *mcp.ProgressNotificationParams, progressBuffer)
	delivered := make(chan struct{})
	go func() {
		defer close(delivered)
		for params := range notifications {
			params.ProgressToken = token
			_ = session.NotifyProgress(ctx, params)
		}
	}()

	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
	ours = fmt.Sprintf("plughost-%d", p.count)
	if p.calls == nil {
		p.calls = make(map[string]chan<- *mcp.ProgressNotificationParams)
	}
	p.calls[ours] = notifications
	return ours, func() {
		p.mu.Lock()
		delete(p.calls, ours)
		close(notifications)
		p.mu.Unlock()
		select {
		case <-delivered:
		case <-ctx.Done():
		}
	}
}

// deliver hands a notification to its call, or drops it if there is none.
func (p *progress) deliver(raw json.RawMessage) {
	var params mcp.ProgressNotificationParams
	if err := json.Unmarshal(raw, &params); err != nil {
		return
	}
	ours, _ := params.ProgressToken.(string)
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case p.calls[ours] <- &params: // never, if there is no such call
	default:
	}
}

// of is a transport whose progress notifications go to p.
func (p *progress) of(t mcp.Transport) mcp.Transport { return &progressTransport{t, p} }

type progressTransport struct {
	mcp.Transport
	progress *progress
}

func (t *progressTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &progressConnection{c, t.progress}, nil
}

type progressConnection struct {
	mcp.Connection
	progress *progress
}

func (c *progressConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		message, err := c.Connection.Read(ctx)
		request, ok := message.(*jsonrpc.Request)
		if err != nil || !ok || request.Method != "notifications/progress" {
			return message, err
		}
		c.progress.deliver(request.Params)
	}
}
