package gateway

import (
	"slices"

	"github.com/plughost/plughost/host/internal/caller"
	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/relay"
)

// Configure has the gateway know these services: those that are new, and what
// changed in the tools that services offer and agents may call. It is done when
// it returns. A service that is not among them stays until Watch is told that it
// was removed: it may have calls to finish.
func (g *Gateway) Configure(services []config.Service) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var upstreams []*upstream
	var agents []*agent
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
				a = newAgent(service.Name, service.Tools, g.joined, &g.common)
			}
			agents = append(agents, a)
		}
	}
	g.services = withLeaving(upstreams, g.services)
	g.agents = withLeaving(agents, g.agents)
	g.arrange()
	for _, service := range services {
		switch service.Kind {
		case config.KindMCP:
			find(g.services, service.Name).service.Offer(service.Tools)
		case config.KindAgent:
			a := find(g.agents, service.Name)
			a.grant(service.Tools)
			a.front.Configure(service)
		}
	}
}

// Grant has callers reach what they may now, and no more, in what they have begun
// as well.
func (g *Gateway) Grant(callers []caller.Caller) {
	g.mu.RLock()
	services := g.services
	g.mu.RUnlock()
	for _, c := range callers {
		g.joined.Grant(c.Name, c)
		for _, u := range services {
			u.relay.Grant(c.Name, c)
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

// arrange has the joined endpoint join the services that there are. The lock is
// held.
func (g *Gateway) arrange() {
	services := make([]*relay.Service, len(g.services))
	for i, u := range g.services {
		services[i] = u.service
	}
	g.joined.Arrange(services)
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
		u.service.Disconnect("it is not in the configuration any more")
		g.arrange()
		g.common.sessions.Go(u.close)
	case config.KindAgent:
		a := find(g.agents, service.Name)
		if a == nil {
			return
		}
		g.agents = without(g.agents, a)
		a.disconnect("it is not in the configuration any more")
	}
}
