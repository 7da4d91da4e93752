package config

import (
	"slices"
	"strings"
)

// serviceNames are the names of the services of a kind.
type serviceNames struct {
	all  []string
	good map[string]bool // names, and patterns that were found to match one
}

func (n *serviceNames) add(name string) {
	n.all = append(n.all, name)
	n.good[name] = true
}

// match reports whether a pattern matches any of them.
func (n *serviceNames) match(pattern string) bool {
	if !n.good[pattern] && slices.ContainsFunc(n.all, func(name string) bool { return matches(pattern, name) }) {
		n.good[pattern] = true
	}
	return n.good[pattern]
}

// grants warns of patterns of agents and of tokens that match no service.
func (c *declarations) grants() {
	if c.partial {
		return
	}
	names := map[Kind]*serviceNames{KindMCP: {good: make(map[string]bool)}, KindAgent: {good: make(map[string]bool)}}
	for _, s := range c.services {
		if !s.kindKnown {
			return
		}
		names[s.Kind].add(s.Name)
	}
	for _, s := range c.services {
		if s.Kind == KindAgent {
			c.granted(slices.Concat(s.allow, s.deny), names[KindMCP], names[KindAgent])
		}
	}
	for _, t := range c.host.gateway.tokens {
		c.granted(t.grants, names[KindMCP], names[KindAgent])
		c.named(t.services, KindMCP, names[KindMCP])
		c.named(t.agents, KindAgent, names[KindAgent])
	}
}

func (c *declarations) granted(grants []val[string], servers, agents *serviceNames) {
	for _, grant := range grants {
		pattern, _, _ := strings.Cut(grant.V, "/")
		if servers.match(pattern) {
			continue
		}
		hint := " There is an agent of that name; agents have no tools."
		if !agents.good[pattern] {
			hint = c.similar(pattern, servers)
		}
		c.diags.warnf(grant.Range, "No such service", "%s is about tools of %s, but no mcp service has that name.%s",
			quote(grant.V), quote(pattern), hint)
	}
}

func (c *declarations) named(patterns []val[string], kind Kind, names *serviceNames) {
	for _, p := range patterns {
		if p.V != "*" && !names.match(p.V) {
			c.diags.warnf(p.Range, "No such service", "No %s service has the name %s.%s", kind, quote(p.V), c.similar(p.V, names))
		}
	}
}

func (c *declarations) similar(pattern string, names *serviceNames) string {
	if c.hints++; c.hints > maxHints {
		return ""
	}
	return didYouMean(pattern, names.all)
}
