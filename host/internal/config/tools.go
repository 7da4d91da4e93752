package config

import (
	"path"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// Tools is a pair of lists of patterns. In a pattern * stands for any text, ?
// for one character, [a-z] for one of several, and \ takes the meaning of the
// next character away. What Deny matches is never allowed.
//
// For an MCP service the patterns are over its own tools, and Allow is "*" by
// default. For an agent each is SERVICE/TOOL, where either part may be a
// pattern, and Allow is empty by default: an agent may call nothing that it was
// not granted.
type Tools struct {
	Allow, Deny []string
}

// Offers reports whether an MCP service offers one of its tools.
func (t Tools) Offers(tool string) bool {
	return anyMatch(t.Allow, tool) && !anyMatch(t.Deny, tool)
}

// Grants reports whether an agent may call a tool of an MCP service.
func (t Tools) Grants(service, tool string) bool {
	granted := func(patterns []string) bool {
		for _, p := range patterns {
			servicePart, toolPart, ok := strings.Cut(p, "/")
			if ok && matches(servicePart, service) && matches(toolPart, tool) {
				return true
			}
		}
		return false
	}
	return granted(t.Allow) && !granted(t.Deny)
}

// Reach reports whether there is anything of an MCP service that an agent may call.
func (t Tools) Reach(service string) bool {
	reaches := func(patterns []string, whole bool) bool {
		for _, p := range patterns {
			servicePart, toolPart, ok := strings.Cut(p, "/")
			if ok && matches(servicePart, service) && (!whole || strings.Trim(toolPart, "*") == "") {
				return true
			}
		}
		return false
	}
	return reaches(t.Allow, false) && !reaches(t.Deny, true)
}

func anyMatch(patterns []string, name string) bool {
	for _, p := range patterns {
		if matches(p, name) {
			return true
		}
	}
	return false
}

// noSlash maps the one character that path.Match treats differently, and that
// names of tools may contain, to one that they cannot contain.
var noSlash = strings.NewReplacer("/", "\x01")

func matches(pattern, name string) bool {
	ok, err := path.Match(noSlash.Replace(pattern), noSlash.Replace(name))
	return ok && err == nil
}

func validPattern(pattern string) bool {
	_, err := path.Match(noSlash.Replace(pattern), "")
	return err == nil
}

var toolsSchema = Block{
	Type: "tools",
	Doc: "For an `mcp` service, which of its tools clients see; for an `agent`, which tools it may call, each as `SERVICE/TOOL`. " +
		"`*` and `?` are wildcards.",
	Attributes: []Attribute{
		{Name: "allow", Type: TypeStrings, DefaultDoc: "`[\"*\"]`; for an agent none", Example: `["get_*"]`, Doc: "patterns of the tools"},
		{Name: "deny", Type: TypeStrings, DefaultDoc: "none", Example: `["*_delete"]`, Doc: "patterns of those that are none of them after all"},
	},
}

// tools reads the tools block of a service, which may be absent.
func (d *decoder) tools(s *serviceDecl, block *hcl.Block) {
	allowSet := false
	if block != nil {
		attrs := d.attrs(block, toolsSchema)
		grants := s.kindKnown && s.Kind == KindAgent
		s.allow, allowSet = d.patterns(attrs, "allow", grants)
		s.deny, _ = d.patterns(attrs, "deny", grants)
	}
	s.Tools = Tools{Allow: texts(s.allow), Deny: texts(s.deny)}
	if !allowSet && s.Kind == KindMCP {
		s.Tools.Allow = []string{"*"}
	}
}

// patterns reads a list of patterns, or of grants, which are SERVICE/TOOL.
func (d *decoder) patterns(attrs hcl.Attributes, name string, grants bool) (good []val[string], set bool) {
	want := "one element per pattern"
	if grants {
		want = "one element per grant"
	}
	list, set, _ := d.strings(attrs, name, want)
	for _, p := range list {
		if d.pattern(p, name, grants) {
			good = append(good, p)
		}
	}
	return good, set
}

func (d *decoder) pattern(p val[string], name string, grant bool) bool {
	if p.V == "" {
		d.diags.errorf(p.Range, "Not a pattern", `%s: an empty pattern matches nothing. Write "*" for all tools.`, name)
		return false
	}
	parts := []string{p.V}
	if grant {
		service, tool, ok := strings.Cut(p.V, "/")
		if !ok || service == "" || tool == "" {
			d.diags.errorf(p.Range, "Not a grant",
				`%s: what may be called is written "SERVICE/TOOL", for instance "clock/*" for all tools of the service clock, but not %s.`,
				name, quote(p.V))
			return false
		}
		parts = []string{service, tool}
	}
	for _, part := range parts {
		if !validPattern(part) {
			d.diags.errorf(p.Range, "Not a pattern",
				`%s: %s is not well formed. A [ must be closed and cannot be empty, and a \ must have a character after it; write \[ for the bracket itself.`,
				name, quote(part))
			return false
		}
	}
	return true
}
