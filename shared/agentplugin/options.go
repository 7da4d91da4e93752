package agentplugin

import (
	"context"

	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// Option changes how Serve serves.
type Option func(*options)

type options struct {
	health  func(context.Context) error
	config  any
	handler []a2asrv.RequestHandlerOption
}

// WithConfig declares what the agent can be configured with: target points to a
// struct, as package pluginconfig describes it. It is filled in before the first
// request comes; what it holds until then are the defaults.
func WithConfig(target any) Option {
	return func(o *options) { o.config = target }
}

// WithHandlerOptions passes options on to a2asrv.NewHandler. They come after
// Serve's own, so that a logger among them replaces the one of Serve.
func WithHandlerOptions(opts ...a2asrv.RequestHandlerOption) Option {
	return func(o *options) { o.handler = append(o.handler, opts...) }
}

// WithHealth has the plugin be unhealthy while check returns an error, whose
// text the host shows. The host asks every few seconds, and wants an answer
// within one or two; it replaces a plugin that stays unhealthy.
func WithHealth(check func(context.Context) error) Option {
	return func(o *options) { o.health = check }
}
