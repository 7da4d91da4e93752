package gateway

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/shared/calldepth"
)

// checkCalls is a middleware for the tools of an agent. A call of one that the
// agent was not granted is logged and refused like that of one which does not
// exist; one in too long a chain of agents is refused; others go on one deeper.
func (a *agent) checkCalls(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		call, ok := request.(*mcp.CallToolRequest)
		if !ok {
			return next(ctx, method, request)
		}
		if !a.tools.hasTool(call.Params.Name) {
			a.log.Warn("the agent called a tool that it was not granted, or that there is not", "tool", call.Params.Name)
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown tool %q", call.Params.Name)}
		}
		meta, err := calldepth.Deeper(call.Params.Meta)
		if err != nil {
			a.log.Warn("a call of the agent was refused", "tool", call.Params.Name, "reason", err)
			return nil, &jsonrpc.Error{Code: codeUnavailable, Message: err.Error()}
		}
		call.Params.Meta = meta
		return next(ctx, method, request)
	}
}

// hasTool reports whether the view shows a tool.
func (v *view) hasTool(name string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, ok := v.tools.shown[name]
	return ok
}
