package gateway

import (
	"net/http"
	"slices"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/shared/mcphttp"
)

// view is an MCP server that shows features of all services: to all clients, or
// to one agent.
type view struct {
	server *mcp.Server
	log    hclog.Logger

	mu       sync.Mutex
	services []*upstream // in the order of the configuration
	// grants limits the view to what they allow. Nil means no limit.
	grants    grants
	has       map[*upstream]features
	tools     shelf[mcp.Tool]
	prompts   shelf[mcp.Prompt]
	resources shelf[mcp.Resource]
	templates shelf[mcp.ResourceTemplate]
}

func newView(name, version string, log hclog.Logger) *view {
	v := &view{
		server: mcp.NewServer(&mcp.Implementation{Name: name, Version: version}, &mcp.ServerOptions{
			Capabilities: &mcp.ServerCapabilities{
				Tools:     &mcp.ToolCapabilities{ListChanged: true},
				Prompts:   &mcp.PromptCapabilities{ListChanged: true},
				Resources: &mcp.ResourceCapabilities{ListChanged: true},
			},
		}),
		log: log,
		has: make(map[*upstream]features),
	}
	v.tools.add = func(i item[mcp.Tool]) { v.server.AddTool(i.feature, i.owner.observed(i.name)) }
	v.tools.remove = v.server.RemoveTools
	v.prompts.add = func(i item[mcp.Prompt]) { v.server.AddPrompt(i.feature, i.owner.getPrompt(i.name)) }
	v.prompts.remove = v.server.RemovePrompts
	v.resources.add = func(i item[mcp.Resource]) { v.server.AddResource(i.feature, i.owner.readResource) }
	v.resources.remove = v.server.RemoveResources
	v.templates.add = func(i item[mcp.ResourceTemplate]) { v.server.AddResourceTemplate(i.feature, i.owner.readResource) }
	v.templates.remove = v.server.RemoveResourceTemplates
	return v
}

// handler serves the view, with no more sessions than the limits say.
func (v *view) handler(limits config.GatewayLimits) http.Handler {
	handler := mcphttp.Handler(func(*http.Request) *mcp.Server { return v.server }, mcphttp.Options{
		SessionTimeout: limits.SessionIdle, Guarded: true,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if limits.Sessions > 0 && mcphttp.OpensSession(r) && v.sessions() >= limits.Sessions {
			w.Header().Set("Retry-After", "60")
			http.Error(w, "there are too many sessions", http.StatusTooManyRequests)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// show makes the view show exactly these features of the service.
func (v *view) show(u *upstream, f features) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if slices.Contains(v.services, u) { // else it was removed
		v.has[u] = f
		v.fill()
	}
}

// fill has the view's clients see what it has now. The lock is held.
func (v *view) fill() {
	tools := make(map[string]item[mcp.Tool])
	prompts := make(map[string]item[mcp.Prompt])
	resources := make(map[string]item[mcp.Resource])
	templates := make(map[string]item[mcp.ResourceTemplate])
	for _, u := range v.services {
		f := v.has[u]
		for _, tool := range f.tools {
			if v.grants != nil && !v.grants.Tool(u.name, tool.Name) {
				continue
			}
			shown := *tool
			shown.Name = joinedName(u.name, tool.Name)
			claim(tools, shown.Name, item[mcp.Tool]{u, tool.Name, &shown})
		}
		if v.grants != nil && !v.grants.Service(u.name) {
			continue
		}
		for _, prompt := range f.prompts {
			shown := *prompt
			shown.Name = joinedName(u.name, prompt.Name)
			claim(prompts, shown.Name, item[mcp.Prompt]{u, prompt.Name, &shown})
		}
		for _, resource := range f.resources {
			claim(resources, resource.URI, item[mcp.Resource]{u, resource.URI, resource})
		}
		for _, template := range f.templates {
			claim(templates, template.URITemplate, item[mcp.ResourceTemplate]{u, template.URITemplate, template})
		}
	}
	v.tools.fill(tools, v.log)
	v.prompts.fill(prompts, v.log)
	v.resources.fill(resources, v.log)
	v.templates.fill(templates, v.log)
}

// close ends the sessions of the view's clients.
func (v *view) close() {
	var closing sync.WaitGroup
	for session := range v.server.Sessions() {
		closing.Go(func() { _ = session.Close() })
	}
	closing.Wait()
}
