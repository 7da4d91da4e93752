package gateway

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// CallObserver is told of the calls of tools. It does not block.
type CallObserver interface {
	// Called is told of a call that has ended, of a tool that a service offers.
	// What came of it is one of few words.
	Called(service, tool, outcome string, took time.Duration)
}

// What came of a call.
const (
	outcomeOK        = "ok"
	outcomeToolError = "tool_error" // the tool says that it failed
	outcomeError     = "error"      // it could not be called, or ended without an answer
	outcomeCancelled = "cancelled"
)

// ObserveCalls has calls be told of. It is called before Handler.
func (g *Gateway) ObserveCalls(o CallObserver) { g.common.calls = o }

// observed is the handler of a tool, whose calls are told of.
func (u *upstream) observed(tool string) mcp.ToolHandler {
	call := u.callTool(tool)
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		began := time.Now()
		result, err := call(ctx, req)
		if u.calls != nil {
			u.calls.Called(u.name, tool, outcomeOf(ctx, result, err), time.Since(began))
		}
		return result, err
	}
}

func outcomeOf(ctx context.Context, result *mcp.CallToolResult, err error) string {
	switch {
	case err != nil && ctx.Err() != nil:
		return outcomeCancelled
	case err != nil:
		return outcomeError
	case result.IsError:
		return outcomeToolError
	default:
		return outcomeOK
	}
}
