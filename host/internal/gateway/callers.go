package gateway

import (
	"fmt"
	"net/http"
	"slices"

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

// callerView is what a caller who may not reach everything sees, at the endpoint
// of one service or, without one, at that which joins all. Its sessions are that
// caller's alone.
type callerView struct {
	*view
	handler http.Handler
}

type callerKey struct{ caller, service string }

// handlerFor serves an endpoint for a caller: of one service, or of all if u is
// nil.
func (g *Gateway) handlerFor(c caller.Caller, u *upstream) http.Handler {
	switch {
	case c.Restricted():
		return g.viewOf(c, u).handler
	case u != nil:
		return u.handler
	default:
		return g.all
	}
}

// viewOf is the view of a caller, as the caller's token allows it now.
func (g *Gateway) viewOf(c caller.Caller, u *upstream) *callerView {
	key, name, naming := callerKey{caller: c.Name}, "plughost", joinedName
	if u != nil {
		key.service, name, naming = u.name, u.name, ownName
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if v := g.callers[key]; v != nil {
		v.allow(c)
		return v
	}
	v := &callerView{view: newView(name, g.version, naming, g.common.log)}
	v.grants = c
	v.handler = v.view.handler()
	g.callers[key] = v
	g.arrange()
	for _, shown := range v.services {
		shown.tell(v.view)
	}
	v.refill()
	return v
}

// arrangeCallers tells the views of callers of the services that there are. The
// lock is held.
func (g *Gateway) arrangeCallers() {
	for key, v := range g.callers {
		if key.service == "" {
			v.arrange(slices.Clone(g.services))
			continue
		}
		if u := find(g.services, key.service); u != nil {
			v.arrange([]*upstream{u})
			continue
		}
		delete(g.callers, key)
		go v.close()
	}
}

// viewsOf are the views of callers that show a service. The lock is held.
func (g *Gateway) viewsOf(u *upstream) (views []*view) {
	for key, v := range g.callers {
		if key.service == "" || key.service == u.name {
			views = append(views, v.view)
		}
	}
	return views
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
