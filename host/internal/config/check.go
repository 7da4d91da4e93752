package config

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
)

// declarations are all blocks of all files, for the checks that look at more
// than one of them.
type declarations struct {
	diags    *collector
	host     *hostDecl
	services []*serviceDecl

	hints int // given so far

	// partial is set if a file is missing from this, so that what seems
	// undeclared may well be declared there.
	partial bool
}

func (c *declarations) addHost(h *hostDecl, header hcl.Range) {
	h.header = header
	if c.host != nil {
		c.diags.errorf(header, "Duplicate host block", "There can be only one host block; the first is at %s.", c.host.header)
		return
	}
	c.host = h
}

// check runs the checks.
func (c *declarations) check() {
	if c.host == nil {
		c.host = defaultHost()
	}
	unique := c.unique()
	c.ports()
	c.references(unique)
	c.cycles(unique)
	c.grants()
}

// config returns the configuration.
func (c *declarations) config() *Config {
	cfg := &Config{Host: Host{
		Listen:          c.host.listen.V,
		StateDir:        c.host.stateDir.V,
		ShutdownTimeout: c.host.shutdown.V,
		LogLevel:        c.host.logLevel.V,
		StartLimit:      c.host.startLimit.V,
		Logs:            c.host.logs,
		Control:         c.host.control,
		Gateway:         c.host.gateway.Gateway,
	}}
	for _, s := range c.services {
		cfg.Services = append(cfg.Services, s.Service)
	}
	return cfg
}

// unique reports services that are declared twice, and returns the first of
// each.
func (c *declarations) unique() map[Ref]*serviceDecl {
	first := make(map[Ref]*serviceDecl)
	for _, s := range c.services {
		if before, dup := first[s.Ref()]; dup {
			c.diags.errorf(s.Range, "Duplicate service", "service.%s is already declared at %s.", s.Ref(), before.Range)
			continue
		}
		first[s.Ref()] = s
	}
	return first
}

// ports reports ports that are wanted twice.
func (c *declarations) ports() {
	first := make(map[int]*serviceDecl)
	for _, s := range c.services {
		if !s.port.Set {
			continue
		}
		if s.Port == c.host.listenPort {
			where := "which is the default of listen in the host block"
			if c.host.listen.Set {
				where = fmt.Sprintf("at %s", c.host.listen.Range)
			}
			c.diags.errorf(s.port.Range, "Port taken", "port %d is the one that the gateway listens on, %s.", s.Port, where)
			continue
		}
		if before, dup := first[s.Port]; dup {
			c.diags.errorf(s.port.Range, "Port taken", "port %d is already taken by service.%s at %s.", s.Port, before.Ref(), before.port.Range)
			continue
		}
		first[s.Port] = s
	}
}

// references reports references to what is not declared, and to oneself.
func (c *declarations) references(declared map[Ref]*serviceDecl) {
	// A service of an unknown kind has been reported; what refers to it may well
	// be right.
	unknownKind := make(map[string]bool)
	for _, s := range c.services {
		if !s.kindKnown {
			unknownKind[s.Name] = true
		}
	}
	for _, s := range c.services {
		for _, dep := range s.dependsOn {
			if dep.V == s.Ref() {
				c.diags.errorf(dep.Range, "Service depends on itself", "service.%s refers to itself; it would wait for itself for ever.", dep.V)
				continue
			}
			if declared[dep.V] != nil || c.partial || unknownKind[dep.V.Name] {
				continue
			}
			c.diags.errorf(dep.Range, "Service not declared", "service.%s is not declared.%s", dep.V, c.nearest(dep.V, s))
		}
	}
}

// These bound what a large and wrong configuration can cost.
const (
	maxHints  = 100 // searches for a similar name
	maxCycles = 20  // reported
)

// nearest hints at the service that was meant, which is not the one that refers.
func (c *declarations) nearest(ref Ref, from *serviceDecl) string {
	if c.hints++; c.hints > maxHints {
		return ""
	}
	var names []string
	for _, s := range c.services {
		if s == from || !s.kindKnown {
			continue
		}
		if s.Name == ref.Name {
			return fmt.Sprintf(" Did you mean service.%s?", s.Ref())
		}
		if s.Kind == ref.Kind {
			names = append(names, s.Name)
		}
	}
	if near := suggest(ref.Name, names); near != "" {
		return fmt.Sprintf(" Did you mean service.%s?", Ref{Kind: ref.Kind, Name: near})
	}
	return ""
}

// cycles reports every circle of services that wait for each other, with all
// its references.
func (c *declarations) cycles(declared map[Ref]*serviceDecl) {
	const (
		unseen = iota
		open   // on the path that is being followed
		done
	)
	state := make(map[Ref]int)
	var path []edge[Ref]
	found := 0
	var visit func(s *serviceDecl)
	visit = func(s *serviceDecl) {
		state[s.Ref()] = open
		for _, dep := range s.dependsOn {
			to := declared[dep.V]
			if to == nil || dep.V == s.Ref() {
				continue
			}
			step := edge[Ref]{from: s.Ref(), to: dep.V, rng: dep.Range}
			switch state[dep.V] {
			case open:
				if found++; found > maxCycles {
					return
				}
				start := slices.IndexFunc(path, func(e edge[Ref]) bool { return e.from == dep.V })
				c.cycle(append(slices.Clone(path[start:]), step))
			case unseen:
				path = append(path, step)
				visit(to)
				path = path[:len(path)-1]
			}
		}
		state[s.Ref()] = done
	}
	for _, s := range c.services {
		if declared[s.Ref()] == s && state[s.Ref()] == unseen {
			visit(s)
		}
	}
}

func (c *declarations) cycle(edges []edge[Ref]) {
	c.diags.errorf(edges[0].rng, "Services depend on each other",
		"The dependencies form a cycle: %s. None of these services could ever start:%s", chain(edges), places(edges, "depends on"))
}

// StartOrder returns the services in the order in which they can start: each
// group needs only services of the groups before it. Within a group the order is
// that of the configuration. Stopping goes the other way.
func (c *Config) StartOrder() [][]Ref {
	var order [][]Ref
	services := make(map[Ref]Service, len(c.Services))
	for _, s := range c.Services {
		services[s.Ref()] = s
	}
	group := make(map[Ref]int) // counted from 1
	var place func(s Service) int
	place = func(s Service) int {
		if g, ok := group[s.Ref()]; ok {
			return g
		}
		group[s.Ref()] = 1 // should a Config made by hand have a cycle, it ends here
		g := 1
		for _, dep := range s.DependsOn {
			if on, ok := services[dep]; ok {
				g = max(g, place(on)+1)
			}
		}
		group[s.Ref()] = g
		return g
	}
	for _, s := range c.Services {
		g := place(s)
		for len(order) < g {
			order = append(order, nil)
		}
	}
	for _, s := range c.Services {
		g := group[s.Ref()] - 1
		order[g] = append(order[g], s.Ref())
	}
	return order
}
