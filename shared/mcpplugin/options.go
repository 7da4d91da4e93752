package mcpplugin

// Option changes how Serve serves.
type Option func(*options)

type options struct {
	config any
}

// WithConfig declares what the plugin can be configured with: target points to a
// struct, as package pluginconfig describes it. It is filled in before the first
// session begins; what it holds until then are the defaults. Run by hand, the
// plugin is configured by the JSON file that PLUGHOST_CONFIG_FILE names.
func WithConfig(target any) Option {
	return func(o *options) { o.config = target }
}
