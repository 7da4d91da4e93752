package gateway

import (
	"maps"
	"slices"

	"github.com/plughost/plughost/host/internal/config"
)

// Configure has the gateway know these services: those that are new, and what
// changed in the tools that services offer and agents may call. It is done when
// it returns. A service that is not among them stays until Watch is told that it
// was removed: it may have calls to finish.
func (g *Gateway) Configure(services []config.Service) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var upstreams []*upstream
	var agents, newAgents []*agent
	for _, service := range services {
		switch service.Kind {
		case config.KindMCP:
			u := find(g.services, service.Name)
			if u == nil {
				u = newUpstream(service.Name, service.Tools, &g.common)
			}
			upstreams = append(upstreams, u)
		case config.KindAgent:
			a := find(g.agents, service.Name)
			if a == nil {
				a = newAgent(service.Name, &g.common)
				a.tools = newView("plughost", g.version, g.common.log)
				a.tools.grants = toolsOnly{service.Tools}
				a.tools.server.AddReceivingMiddleware(a.checkCalls)
				newAgents = append(newAgents, a)
			}
			agents = append(agents, a)
		}
	}
	g.services = withLeaving(upstreams, g.services)
	g.agents = withLeaving(agents, g.agents)
	g.arrange()
	for _, a := range newAgents {
		for _, u := range g.services {
			u.tell(a.tools)
		}
		a.tools.refill()
	}
	for _, service := range services {
		switch service.Kind {
		case config.KindMCP:
			find(g.services, service.Name).offer(service.Tools)
		case config.KindAgent:
			a := find(g.agents, service.Name)
			a.tools.grant(service.Tools)
			a.front.Configure(service)
		}
	}
}

// named is what the gateway has of a service.
type named interface {
	comparable
	serviceName() string
}

func (u *upstream) serviceName() string { return u.name }
func (a *agent) serviceName() string    { return a.name }

// find returns the one of a name, or nil.
func find[T named](all []T, name string) T {
	if i := slices.IndexFunc(all, func(one T) bool { return one.serviceName() == name }); i >= 0 {
		return all[i]
	}
	var none T
	return none
}

// withLeaving adds those that are not configured any more, and not gone yet.
func withLeaving[T named](configured, before []T) []T {
	for _, one := range before {
		if !slices.Contains(configured, one) {
			configured = append(configured, one)
		}
	}
	return configured
}

// without is a list without one; whoever reads the old list is not disturbed.
func without[T comparable](list []T, one T) []T {
	return slices.DeleteFunc(slices.Clone(list), func(other T) bool { return other == one })
}

// arrange tells services and views of each other. The lock is held.
func (g *Gateway) arrange() {
	shared := []*view{g.joined}
	for _, a := range g.agents {
		shared = append(shared, a.tools)
	}
	for _, v := range g.callers {
		shared = append(shared, v.view)
	}
	for _, u := range g.services {
		u.mu.Lock()
		u.views = shared
		u.mu.Unlock()
	}
	for _, v := range shared {
		v.arrange(slices.Clone(g.services))
	}
}

// removed forgets a service of which nothing is left.
func (g *Gateway) removed(service config.Ref) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch service.Kind {
	case config.KindMCP:
		u := find(g.services, service.Name)
		if u == nil {
			return
		}
		g.services = without(g.services, u)
		u.disconnect("it is not in the configuration any more")
		g.arrange()
		u.then(func() {
			u.relay.Close()
			u.service.Close()
		})
	case config.KindAgent:
		a := find(g.agents, service.Name)
		if a == nil {
			return
		}
		g.agents = without(g.agents, a)
		a.disconnect("it is not in the configuration any more")
		g.arrange()
	}
}

// offer changes what of a service's tools is shown.
func (u *upstream) offer(tools config.Tools) {
	u.service.Offer(tools)
	u.showing.Lock()
	defer u.showing.Unlock()
	if !same(u.tools, tools) {
		u.tools = tools
		u.show()
	}
}

// showAll has all views show what the service has now.
func (u *upstream) showAll(f features) {
	u.showing.Lock()
	defer u.showing.Unlock()
	u.has = f
	u.know(f.tools)
	u.service.Tools(f.tools)
	u.show()
}

// show shows what the service offers. showing is held, so that what is shown
// last is what holds.
func (u *upstream) show() {
	u.mu.Lock()
	views := u.views
	u.mu.Unlock()
	f := u.offered()
	for _, v := range views {
		v.show(u, f)
	}
}

// tell lets a new view know what the service offers, to be shown later.
func (u *upstream) tell(v *view) {
	u.showing.Lock()
	defer u.showing.Unlock()
	v.learn(u, u.offered())
}

// offered is what the service has without the tools that it may not offer.
func (u *upstream) offered() features {
	f := u.has
	f.tools = nil
	for _, tool := range u.has.tools {
		if u.tools.Offers(tool.Name) {
			f.tools = append(f.tools, tool)
		}
	}
	return f
}

// arrange makes the view one of these services.
func (v *view) arrange(services []*upstream) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if slices.Equal(v.services, services) {
		return
	}
	v.services = services
	maps.DeleteFunc(v.has, func(u *upstream, _ features) bool { return !slices.Contains(services, u) })
	v.fill()
}

// grant limits the view to some tools.
func (v *view) grant(tools config.Tools) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if before, ok := v.grants.(toolsOnly); !ok || !same(before.Tools, tools) {
		v.grants = toolsOnly{tools}
		v.fill()
	}
}

// learn takes what a service has, and shows it with the next refill.
func (v *view) learn(u *upstream, f features) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.has[u] = f
}

func (v *view) refill() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.fill()
}

func same(a, b config.Tools) bool {
	return slices.Equal(a.Allow, b.Allow) && slices.Equal(a.Deny, b.Deny)
}
