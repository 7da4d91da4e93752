package gateway

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/plughost/plughost/host/internal/agents"
	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/relay"
	"github.com/plughost/plughost/host/internal/supervise"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
	"github.com/plughost/plughost/shared/tunnel"
)

// agent is one agent as the gateway sees it: A2A in front of it, and the MCP tools
// that it was granted.
type agent struct {
	*common
	name   string
	joined *relay.Join
	front  *agents.Front
	log    hclog.Logger

	mu       sync.Mutex
	grants   *toolsOnly
	plugin   Plugin             // that was given its tools last, or nil
	tools    *relay.Client      // the agent as a client of its tools, or nil
	endTools context.CancelFunc // ends the stream of the tools
}

func newAgent(name string, tools config.Tools, joined *relay.Join, c *common) *agent {
	log := c.log.With("service", "agent."+name)
	return &agent{
		common:   c,
		name:     name,
		joined:   joined,
		grants:   &toolsOnly{tools},
		front:    agents.NewFront(c.life, name, &c.address, c.sessions, log),
		log:      log,
		endTools: func() {},
	}
}

// changed follows a transition of the service.
func (a *agent) changed(change supervise.Change) {
	if plugin, ok := change.Running.(Plugin); ok && change.State == supervise.Ready {
		a.connect(plugin)
		return
	}
	a.disconnect(unavailable(change.Status))
}

// connect gives the agent its tools and takes requests for it. One that was
// unhealthy for a while has its tools still.
func (a *agent) connect(plugin Plugin) {
	if a.life.Err() != nil {
		return
	}
	a.front.Connect(plugin)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.plugin == plugin {
		return
	}
	a.plugin = plugin
	a.endTools()
	ctx, cancel := context.WithCancel(a.life)
	a.endTools = cancel
	a.sessions.Go(func() {
		defer cancel()
		a.giveTools(ctx, plugin)
	})
}

// disconnect lets no request begin any more. Those in flight go on, and the
// agent keeps its tools to finish them with: both end with its process.
func (a *agent) disconnect(why string) { a.front.Disconnect(why) }

// giveTools serves the agent its tools until ctx or the agent ends. A stream
// that the agent ends is opened again after a while.
func (a *agent) giveTools(ctx context.Context, plugin Plugin) {
	for {
		err := a.serveTools(ctx, plugin)
		switch {
		case ctx.Err() != nil:
			return
		case status.Code(err) == codes.Unimplemented:
			return // it wants none
		}
		select {
		case <-ctx.Done():
			return
		case <-plugin.Exited():
			return
		case <-time.After(a.reconnectDelay):
			a.log.Warn("the agent's tools ended and are given again", "reason", err)
		}
	}
}

// serveTools opens the stream on which the agent is the MCP client, and serves
// it until ctx or the agent ends.
func (a *agent) serveTools(ctx context.Context, plugin Plugin) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := plughostv1.NewHostClient(plugin.Conn()).Tools(ctx)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-plugin.Exited():
			cancel()
		case <-ended:
		}
	}()
	client := a.attach(ctx, stream)
	if client == nil {
		return ctx.Err()
	}
	return client.Serve(ctx)
}

// attach makes the agent a client of its tools, unless ctx has ended: another
// instance may be it by then.
func (a *agent) attach(ctx context.Context, stream tunnel.Stream) *relay.Client {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ctx.Err() != nil {
		return nil
	}
	a.tools = a.joined.Attach(stream, a.grants, a.checkCall)
	return a.tools
}

// grant changes which tools the agent may call.
func (a *agent) grant(tools config.Tools) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.Equal(a.grants.Allow, tools.Allow) && slices.Equal(a.grants.Deny, tools.Deny) {
		return
	}
	a.grants = &toolsOnly{tools}
	if a.tools != nil {
		a.tools.Grant(a.grants)
	}
}

// granted is what the agent may call now.
func (a *agent) granted() *toolsOnly {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.grants
}
