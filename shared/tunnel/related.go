package tunnel

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// The SDK keeps to itself which request a message belongs to that a handler
// sends. So the transport gives each request's id to the middleware, in the
// only thing that goes with it, its header; the middleware puts it into the
// context of the handler; and there Write finds it, if the handler passed its
// context on.

// idHeader holds a request's id. No HTTP header is written like this, so none
// can be taken for it, and Get does not find it.
const idHeader = "plughost request id"

// relatedKey is the context's key of the id, an int64.
type relatedKey struct{}

// Related has the messages that a server's handlers send say which request they
// belong to, so that they reach the client on the stream of that request. The
// server must use it for that: server.AddReceivingMiddleware(tunnel.Related).
// Other transports than a tunnel's are not concerned.
func Related(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if id, ok := takeID(req.GetExtra()); ok {
			ctx = context.WithValue(ctx, relatedKey{}, id)
		}
		return next(ctx, method, req)
	}
}

func takeID(extra *mcp.RequestExtra) (int64, bool) {
	if extra == nil || len(extra.Header[idHeader]) == 0 {
		return 0, false
	}
	id, err := strconv.ParseInt(extra.Header[idHeader][0], 10, 64)
	delete(extra.Header, idHeader)
	return id, err == nil
}

// relatedTo returns the id of the request in whose course ctx is, or 0.
func relatedTo(ctx context.Context) int64 {
	id, _ := ctx.Value(relatedKey{}).(int64)
	return id
}

// extra is what goes beside a request: its HTTP headers, and how to close the
// client's stream.
func (c *connection) extra(frame *plughostv1.Frame, request *jsonrpc.Request) *mcp.RequestExtra {
	extra := &mcp.RequestExtra{Header: make(http.Header, len(frame.GetHeader())+1)}
	for name, value := range frame.GetHeader() {
		extra.Header.Set(name, value)
	}
	id, ok := request.ID.Raw().(int64)
	if !ok {
		return extra
	}
	extra.Header[idHeader] = []string{strconv.FormatInt(id, 10)}
	extra.CloseSSEStream = func(args mcp.CloseSSEStreamArgs) {
		ctx, cancel := context.WithTimeout(context.Background(), closeStreamTimeout)
		defer cancel()
		_ = c.send(ctx, &plughostv1.Frame{
			Request:     &id,
			CloseStream: &plughostv1.CloseStream{RetryAfter: args.RetryAfter.Milliseconds()},
		})
	}
	return extra
}

// closeStreamTimeout bounds what a handler waits for a host that reads nothing.
const closeStreamTimeout = 5 * time.Second
