package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/bridge"
	"github.com/plughost/plughost/shared/wire"
)

// Methods of stateless.
const (
	methodDiscover     = "server/discover"
	methodListen       = "subscriptions/listen"
	methodAcknowledged = "notifications/subscriptions/acknowledged"
)

// asker is a server that is used without sessions: each request stands alone, as
// stateless has it.
type asker interface {
	// ask makes a request, and hands over what the server says in its course, the
	// answer last, under the request's own id and token. The request is given up
	// when ctx ends. What is handed over is taken at once.
	ask(ctx context.Context, request wire.Message, deliver func(wire.Message)) error
	// said is how the server described itself.
	said() hello
}

// guest is a client of such a server. What it asks in stateless passes as it is;
// if it initializes a session it is served as an elder.
type guest struct {
	server asker
	client *client
	life   context.Context
	cancel context.CancelFunc
	calls  inFlight
	elder  *elder
}

func newGuest(life context.Context, server asker, c *client) *guest {
	g := &guest{server: server, client: c}
	g.life, g.cancel = context.WithCancel(life)
	g.elder = newElder(g)
	return g
}

// send implements upstream.
func (g *guest) send(_ context.Context, m wire.Message) error {
	switch {
	case m.Kind == wire.Response:
		g.elder.reply(m)
	case m.Kind == wire.Notification:
		g.notification(m)
	case revisionOf(m) != "":
		g.run(m, g.pass)
	default:
		g.elder.request(m)
	}
	return nil
}

// notification takes a notification of the client, of which the server has no
// use but for cancellations.
func (g *guest) notification(m wire.Message) {
	switch string(m.Method) {
	case "notifications/initialized":
		g.elder.initialized()
	case "notifications/cancelled":
		if span, err := m.CancelledID(); err == nil && g.calls.giveUp(m.Bytes(span)) {
			g.client.done(m.Bytes(span))
		}
	}
}

// run makes a call beside those that follow it.
func (g *guest) run(m wire.Message, do func(context.Context, wire.Message) error) {
	ctx, done := g.calls.begin(g.life, m.Bytes(m.ID))
	go func() {
		defer done()
		if err := do(ctx, m); err != nil && ctx.Err() == nil {
			g.client.refuse(m, codeUnavailable, err.Error())
		}
	}()
}

func (g *guest) pass(ctx context.Context, m wire.Message) error {
	return g.server.ask(ctx, m, func(got wire.Message) { g.client.deliverFor(m.Bytes(m.ID), got) })
}

// close implements upstream.
func (g *guest) close() { g.cancel() }

// ownMeta is the _meta of the bridge's own requests to a server without sessions.
func ownMeta() map[string]any {
	return map[string]any{
		mcp.MetaKeyProtocolVersion:    stateless,
		mcp.MetaKeyClientInfo:         ownInfo(),
		mcp.MetaKeyClientCapabilities: struct{}{},
	}
}

// ownInfo is what servers hear that the bridge is.
func ownInfo() any {
	return map[string]any{"name": "plughost " + bridge.Name, "version": shared.MainVersion()}
}

// discovered reads the answer to server/discover.
func discovered(answer wire.Message) (hello, error) {
	if answer.Error.Found() {
		return hello{}, fmt.Errorf("the server refuses to be used without sessions: %s", shown(answer.Bytes(answer.Error)))
	}
	var result struct {
		SupportedVersions []string                   `json:"supportedVersions"`
		Capabilities      json.RawMessage            `json:"capabilities"`
		Instructions      json.RawMessage            `json:"instructions"`
		Meta              map[string]json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(answer.Bytes(answer.Result), &result); err != nil {
		return hello{}, fmt.Errorf("the server's answer to %s makes no sense: %w", methodDiscover, err)
	}
	if !slices.Contains(result.SupportedVersions, stateless) {
		return hello{}, fmt.Errorf("the server speaks MCP of %s, and not of %s", strings.Join(result.SupportedVersions, ", "), stateless)
	}
	h := hello{stateless, map[string]json.RawMessage{"capabilities": []byte("{}"), "serverInfo": []byte(`{"name":"","version":""}`)}}
	for name, value := range map[string]json.RawMessage{
		"capabilities": result.Capabilities, "instructions": result.Instructions, "serverInfo": result.Meta[mcp.MetaKeyServerInfo],
	} {
		if value != nil {
			h.result[name] = value
		}
	}
	return h, nil
}
