package mcpplugin

import (
	"context"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/shared"
)

// codeDraining is the JSON-RPC error code of a request that came when the
// plugin was already ending; it is in the range left to implementations.
const codeDraining = -32000

// isWork tells the requests that a draining plugin finishes. Notifications
// want no answer, and a listener's request lasts as long as its client likes.
func isWork(method string) bool {
	return !strings.HasPrefix(method, "notifications/") && method != "subscriptions/listen"
}

// count makes each request, on whatever transport, a piece of work, and
// refuses it when the plugin is draining.
func count(work *shared.Work) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if !isWork(method) {
				return next(ctx, method, req)
			}
			end, ok := work.Begin()
			if !ok {
				return nil, &jsonrpc.Error{Code: codeDraining, Message: "the server is shutting down"}
			}
			defer end()
			return next(ctx, method, req)
		}
	}
}

// countingTransport makes each request that comes over it a piece of work
// until its answer was sent. For the middleware it ends when its handler
// returns, and the host, told that nothing is in flight, may end the plugin
// before the answer is out.
type countingTransport struct {
	mcp.Transport
	work *shared.Work
}

func (t *countingTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &countingConnection{Connection: c, work: t.work, open: make(map[jsonrpc.ID]func())}, nil
}

type countingConnection struct {
	mcp.Connection
	work *shared.Work

	mu   sync.Mutex
	open map[jsonrpc.ID]func() // ends the work of the requests in flight
}

func (c *countingConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	message, err := c.Connection.Read(ctx)
	if request, ok := message.(*jsonrpc.Request); ok && err == nil && request.IsCall() && isWork(request.Method) {
		c.begin(request.ID)
	}
	return message, err
}

func (c *countingConnection) Write(ctx context.Context, message jsonrpc.Message) error {
	err := c.Connection.Write(ctx, message)
	if response, ok := message.(*jsonrpc.Response); ok {
		c.end(response.ID)
	}
	return err
}

// Close is called when nothing can be answered any more.
func (c *countingConnection) Close() error {
	err := c.Connection.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, end := range c.open {
		end()
		delete(c.open, id)
	}
	return err
}

// begin leaves out an id that is in use, whose second request is refused, and,
// when draining, what the middleware refuses.
func (c *countingConnection) begin(id jsonrpc.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, used := c.open[id]; used {
		return
	}
	if end, ok := c.work.Begin(); ok {
		c.open[id] = end
	}
}

func (c *countingConnection) end(id jsonrpc.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if end, ok := c.open[id]; ok {
		end()
		delete(c.open, id)
	}
}
