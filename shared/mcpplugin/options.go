package mcpplugin

import "context"

// Option changes how Serve serves.
type Option func(*options)

type options struct {
	health func(context.Context) error
	config any
}

// WithConfig declares what the plugin can be configured with: target points to a
// struct, as package pluginconfig describes it. It is filled in before the first
// session begins; what it holds until then are the defaults. Run by hand, the
// plugin is configured by the JSON file that PLUGHOST_CONFIG_FILE names.
func WithConfig(target any) Option {
	return func(o *options) { o.config = target }
}

// WithHealth has the plugin be unhealthy while check returns an error, whose
// text the host shows. The host asks every few seconds, and wants an answer
// within one or two; it replaces a plugin that stays unhealthy.
func WithHealth(check func(context.Context) error) Option {
	return func(o *options) { o.health = check }
}
