package gateway

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/host/internal/relay"
)

// CallObserver is told of the calls of tools. It does not block.
type CallObserver interface {
	// Called is told of a call that has ended, of a tool that a service offers.
	// What came of it is one of few words.
	Called(service, tool, outcome string, took time.Duration)
}

// ObserveCalls has calls be told of. It is called before Handler.
func (g *Gateway) ObserveCalls(o CallObserver) { g.common.calls = o }

// observed is the handler of a tool, whose calls are told of.
func (u *upstream) observed(tool string) mcp.ToolHandler {
	call := u.callTool(tool)
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		began := time.Now()
		result, err := call(ctx, req)
		u.called(tool, outcomeOf(ctx, result, err), time.Since(began))
		return result, err
	}
}

// called tells of a call. Of a tool that the service does not have nothing is
// told: clients can make up names.
func (u *upstream) called(tool, outcome string, took time.Duration) {
	if names := u.names.Load(); u.calls != nil && names != nil && (*names)[tool] {
		u.calls.Called(u.name, tool, outcome, took)
	}
}

// calledAlone tells of a call at the service's own endpoint.
func (u *upstream) calledAlone(_, tool, outcome string, took time.Duration) {
	u.called(tool, outcome, took)
}

// know has calls of these tools be told of.
func (u *upstream) know(tools []*mcp.Tool) {
	names := make(map[string]bool)
	for _, tool := range tools {
		names[tool.Name] = true
	}
	u.names.Store(&names)
}

func outcomeOf(ctx context.Context, result *mcp.CallToolResult, err error) string {
	switch {
	case err != nil && ctx.Err() != nil:
		return relay.OutcomeCancelled
	case err != nil:
		return relay.OutcomeError
	case result.IsError:
		return relay.OutcomeToolError
	default:
		return relay.OutcomeOK
	}
}

// Sessions counts the sessions of clients by the service of their endpoint; that
// of the endpoint that joins all is empty. What has no sessions is not counted.
func (g *Gateway) Sessions() map[string]int {
	g.mu.RLock()
	defer g.mu.RUnlock()
	sessions := map[string]int{"": g.joined.sessions()}
	for _, v := range g.callers {
		sessions[""] += v.sessions()
	}
	for _, u := range g.services {
		sessions[u.name] = u.relay.Sessions()
	}
	return sessions
}

func (v *view) sessions() (n int) {
	for range v.server.Sessions() {
		n++
	}
	return n
}
