package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty/function"
)

// decode turns the parsed files into a configuration. What it returns is whole
// only if no errors were found.
func (l *loader) decode(in Input) *Config {
	scope := newScope(&l.diags, l.partial, cmp.Or(in.budget, maxCost))
	decl := &declarations{diags: &l.diags}
	var locals []*node
	var variables []*variable
	var hosts, services []func()
	for _, src := range l.sources {
		d := &decoder{src: src, diags: &l.diags, scope: scope, functions: functions(src.dir, scope.budget)}
		if body, ok := src.body.(*hclsyntax.Body); ok {
			scope.budget.meterBody(body)
		}
		content, ok := d.content(src.body, rootSchema)
		if !ok {
			// One of the blocks that were passed over may declare anything.
			scope.partial = true
		}
		for _, block := range content.Blocks {
			switch block.Type {
			case "host":
				hosts = append(hosts, func() { decl.addHost(d.host(block), d.header(block)) })
			case "variable":
				variables = append(variables, d.declareVariable(block))
			case "locals":
				locals = append(locals, d.declareLocals(block)...)
			case "service":
				d.declareService(block)
				services = append(services, func() { decl.services = append(decl.services, d.service(block)) })
			}
		}
	}
	decl.partial = scope.partial
	l.settleVariables(scope, in, variables)
	for _, n := range locals {
		scope.settle(n)
	}
	for _, v := range variables {
		v.validate()
	}
	for _, decode := range slices.Concat(hosts, services) {
		decode()
	}
	decl.check()
	return decl.config()
}

// decoder reads the bodies of one file.
type decoder struct {
	src       *source
	diags     *collector
	scope     *scope
	functions map[string]function.Function
}

// content reads a body against a schema that names all it may hold. Anything
// else is reported, with a hint, and ok is false then.
func (d *decoder) content(body hcl.Body, schema Block) (content *hcl.BodyContent, ok bool) {
	content, diags := body.Content(schema.schema())
	if len(diags) > 0 && schema.Type == "service" {
		hintOtherWords(body, diags)
	}
	if schema.Type == "" {
		d.hideValues(diags)
	}
	d.diags.native(diags)
	if content == nil {
		content = &hcl.BodyContent{}
	}
	d.warnOfDeprecated(content.Attributes, schema)
	return content, !diags.HasErrors()
}

// warnOfDeprecated warns of arguments that are to go one day.
func (d *decoder) warnOfDeprecated(attrs hcl.Attributes, schema Block) {
	for _, a := range schema.Attributes {
		if given := attrs[a.Name]; given != nil && a.Deprecated != "" {
			d.diags.warnf(given.NameRange, "Deprecated argument", "%s is still read, and will not be one day: %s.", a.Name, a.Deprecated)
		}
	}
}

// hideValues hides what stands outside of all blocks: it may be a file of
// variables, and hold secrets.
func (d *decoder) hideValues(diags hcl.Diagnostics) {
	for _, diag := range diags {
		if diag.Subject != nil && diag.Summary != "Unsupported block type" {
			d.diags.hide(*diag.Subject)
			diag.Detail += " Values of variables stand in a file that --var-file names, outside of the directory of the configuration."
		}
	}
}

// hintOtherWords adds a hint where an unknown argument has the name that other
// tools use for one of a service.
func hintOtherWords(body hcl.Body, diags hcl.Diagnostics) {
	hints := make(map[hcl.Range]string)
	attrs, _ := body.JustAttributes()
	for name, attr := range attrs {
		if instead, ok := otherWords[name]; ok {
			hints[attr.NameRange] = instead
		}
	}
	for _, diag := range diags {
		if diag.Subject == nil || strings.Contains(diag.Detail, "Did you mean") {
			continue
		}
		if instead, ok := hints[*diag.Subject]; ok {
			diag.Detail += fmt.Sprintf(" Did you mean %s?", instead)
		}
	}
}

// misspelt reports whether a body has an unknown attribute that is most likely
// meant to be the one named, so that its absence need not be reported as well.
func (d *decoder) misspelt(body hcl.Body, schema Block, name string) bool {
	attrs, _ := body.JustAttributes()
	for given := range attrs {
		if _, ok := schema.attribute(given); !ok &&
			(suggest(given, []string{name}) != "" || otherWords[given] == quote(name)) {
			return true
		}
	}
	return false
}

// header returns the range of a block's type and labels. In JSON syntax these
// may be lines apart, so it is that of the last label.
func (d *decoder) header(block *hcl.Block) hcl.Range {
	switch {
	case !d.src.json:
		return block.DefRange
	case len(block.LabelRanges) > 0:
		return block.LabelRanges[len(block.LabelRanges)-1]
	default:
		return block.TypeRange
	}
}

// attrs reads a body that holds attributes alone.
func (d *decoder) attrs(block *hcl.Block, schema Block) hcl.Attributes {
	content, _ := d.content(block.Body, schema)
	return content.Attributes
}

// single returns the one block of a type, or nil. Further ones are faults.
func (d *decoder) single(content *hcl.BodyContent, name string) *hcl.Block {
	var first *hcl.Block
	for _, block := range content.Blocks {
		if block.Type != name {
			continue
		}
		if first == nil {
			first = block
			continue
		}
		d.diags.errorf(d.header(block), "Duplicate block",
			"There can be only one %s block here; the first is at %s.", name, d.header(first))
	}
	return first
}
