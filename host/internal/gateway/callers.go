package gateway

import (
	"fmt"
	"net/http"

	"github.com/plughost/plughost/host/internal/caller"
	"github.com/plughost/plughost/host/internal/config"
)

// grants say what of the services a view shows.
type grants interface {
	// Service reports whether a service's prompts and resources are shown.
	Service(service string) bool
	// Tool reports whether a tool of a service is shown.
	Tool(service, tool string) bool
}

// toolsOnly are the grants of an agent, which has no prompts and resources.
type toolsOnly struct{ config.Tools }

func (toolsOnly) Service(string) bool              { return false }
func (t toolsOnly) Tool(service, tool string) bool { return t.Grants(service, tool) }

// callerView is what a caller who may not reach everything sees at the endpoint
// that joins all services. Its sessions are that caller's alone.
type callerView struct {
	*view
	handler http.Handler
}

// handlerFor serves the endpoint that joins all services, for a caller.
func (g *Gateway) handlerFor(c caller.Caller) http.Handler {
	if c.Restricted() {
		return g.viewOf(c).handler
	}
	return g.all
}

// viewOf is the view of a caller, as the caller's token allows it now.
func (g *Gateway) viewOf(c caller.Caller) *callerView {
	g.mu.Lock()
	defer g.mu.Unlock()
	if v := g.callers[c.Name]; v != nil {
		v.allow(c)
		return v
	}
	v := &callerView{view: newView("plughost", g.version, g.common.log)}
	v.grants = c
	v.handler = v.view.handler(g.common.limits)
	g.callers[c.Name] = v
	g.arrange()
	for _, shown := range v.services {
		shown.tell(v.view)
	}
	v.refill()
	return v
}

// allow limits the view to what a caller may reach now.
func (v *view) allow(c caller.Caller) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.grants != c {
		v.grants = c
		v.fill()
	}
}

// forbid answers a request for what its caller may not reach, whether it is
// there or not.
func forbid(w http.ResponseWriter, c caller.Caller, what string) {
	http.Error(w, fmt.Sprintf("forbidden: the token %q does not allow to reach %s", c.Name, what), http.StatusForbidden)
}
