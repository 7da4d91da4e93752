// Package shared is what a plugin and the plughost host have in common: the
// go-plugin handshake, the variables and files through which the host hands a
// plugin its means, and a plugin's life under the host (Serve).
//
// Plugin authors rarely import it. They call mcpplugin.Serve or
// agentplugin.Serve, which build on it; both keep a plugin of one kind from
// linking the other's protocol.
package shared

import "github.com/hashicorp/go-plugin"

// ProtocolVersion is the version of the plughost plugin protocol, as
// negotiated in go-plugin's handshake. The protocol is in shared/proto.
const ProtocolVersion = 1

// PluginName is the one name under which a plughost plugin is dispensed.
const PluginName = "plughost"

// The magic cookie tells a plugin that a plughost host launched it. It is no
// secret: without it the same binary serves by hand.
const (
	cookieKey   = "PLUGHOST_PLUGIN_COOKIE"
	cookieValue = "ba4cfd8c-0d58-4c54-9f0b-2f6a3f0bd7c1"
)

// Handshake returns the go-plugin handshake that host and plugins agree on.
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{
		ProtocolVersion:  ProtocolVersion,
		MagicCookieKey:   cookieKey,
		MagicCookieValue: cookieValue,
	}
}

// CallerMetadata is the gRPC metadata by which the host tells an agent who makes
// an A2A request: the name of a token, if the gateway knows callers by them.
const CallerMetadata = "plughost-caller"
