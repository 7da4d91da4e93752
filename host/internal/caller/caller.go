// Package caller says who makes a request to the gateway, and what they may
// reach of it. What guards the gateway puts it into the request's context; what
// answers the request asks it.
package caller

import (
	"context"

	"github.com/plughost/plughost/host/internal/config"
)

// Owner is the name of who runs the host and comes by its control socket. No
// token has it.
const Owner = "(owner)"

// Caller is who makes a request. The zero Caller is one of a gateway without
// tokens, who may reach everything.
type Caller struct {
	// Name is the token's, which stays when its value is rotated, Owner, or
	// empty. A session belongs to the name that opened it.
	Name string

	access *config.Access // nil for everything
}

// New makes a caller that may reach no more than access says.
func New(name string, access config.Access) Caller { return Caller{Name: name, access: &access} }

// Restricted reports whether there is anything that the caller may not reach.
func (c Caller) Restricted() bool { return c.access != nil }

// Service reports whether an MCP service may be reached, with its resources and
// prompts.
func (c Caller) Service(name string) bool { return c.access == nil || c.access.Service(name) }

// Reaches reports whether anything of an MCP service may be reached.
func (c Caller) Reaches(service string) bool { return c.Service(service) }

// Tool reports whether a tool of an MCP service may be seen and called.
func (c Caller) Tool(service, tool string) bool {
	return c.access == nil || c.access.Tool(service, tool)
}

// Agent reports whether an agent may be reached.
func (c Caller) Agent(name string) bool { return c.access == nil || c.access.Agent(name) }

// Metrics reports whether the metrics may be read.
func (c Caller) Metrics() bool { return c.access == nil || c.access.Metrics }

type key struct{}

// NewContext returns a context that has a caller.
func NewContext(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, key{}, c)
}

// FromContext returns the caller of a request, or the zero Caller.
func FromContext(ctx context.Context) Caller {
	c, _ := ctx.Value(key{}).(Caller)
	return c
}
