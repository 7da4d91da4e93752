package gateway

import (
	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/relay"
	"github.com/plughost/plughost/host/internal/supervise"
)

// upstream is one MCP service as the gateway sees it, with its own endpoint.
type upstream struct {
	name    string
	service *relay.Service
	relay   *relay.Relay // serves the service alone
}

func newUpstream(name string, tools config.Tools, c *common) *upstream {
	service := relay.NewService(name, tools, c.log.With("service", "mcp."+name))
	return &upstream{name: name, service: service, relay: relay.New(service, c.relay)}
}

// changed follows a transition of the service.
func (u *upstream) changed(change supervise.Change) {
	if plugin, ok := change.Running.(Plugin); ok && change.State == supervise.Ready {
		u.service.Connect(plugin)
		return
	}
	u.service.Disconnect(unavailable(change.Status))
	if change.State == supervise.Stopped {
		u.service.Clear()
	}
}

// close ends all that is served of the service.
func (u *upstream) close() {
	u.relay.Close()
	u.service.Close()
}
