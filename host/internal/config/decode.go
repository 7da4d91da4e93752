package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

var rootSchema = &hcl.BodySchema{
	Blocks: []hcl.BlockHeaderSchema{
		{Type: "host"},
		{Type: "service", LabelNames: []string{"kind", "name"}},
	},
}

// decode turns the parsed files into a configuration. What it returns is whole
// only if no errors were found.
func (l *loader) decode() *Config {
	decl := &declarations{diags: &l.diags, partial: l.partial}
	for _, src := range l.sources {
		d := &decoder{src: src, diags: &l.diags, scope: &hcl.EvalContext{Variables: map[string]cty.Value{}}}
		content, ok := d.content(src.body, rootSchema)
		if !ok {
			// One of the blocks that were passed over may be a service.
			decl.partial = true
		}
		for _, block := range content.Blocks {
			switch block.Type {
			case "host":
				decl.addHost(d.host(block), d.header(block))
			case "service":
				decl.services = append(decl.services, d.service(block))
			}
		}
	}
	decl.check()
	return decl.config()
}

// decoder reads the bodies of one file. Attributes are evaluated in its scope.
type decoder struct {
	src   *source
	diags *collector
	scope *hcl.EvalContext
}

// content reads a body against a schema that names all it may hold. Anything
// else is reported, with a hint, and ok is false then.
func (d *decoder) content(body hcl.Body, schema *hcl.BodySchema) (content *hcl.BodyContent, ok bool) {
	content, diags := body.Content(schema)
	if len(diags) > 0 && hasAttribute(schema, "command") {
		hintOtherWords(body, diags)
	}
	d.diags.native(diags)
	if content == nil {
		content = &hcl.BodyContent{}
	}
	return content, !diags.HasErrors()
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

func hasAttribute(schema *hcl.BodySchema, name string) bool {
	return slices.ContainsFunc(schema.Attributes, func(a hcl.AttributeSchema) bool { return a.Name == name })
}

// misspelt reports whether a body has an unknown attribute that is most likely
// meant to be the one named, so that its absence need not be reported as well.
func (d *decoder) misspelt(body hcl.Body, schema *hcl.BodySchema, name string) bool {
	attrs, _ := body.JustAttributes()
	for given := range attrs {
		if !hasAttribute(schema, given) &&
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
func (d *decoder) attrs(block *hcl.Block, schema *hcl.BodySchema) hcl.Attributes {
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

// attributes makes the schema of a body that holds attributes alone.
func attributes(names ...string) *hcl.BodySchema {
	schema := &hcl.BodySchema{}
	for _, name := range names {
		schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: name})
	}
	return schema
}

// blocks adds blocks without labels to a schema.
func blocks(schema *hcl.BodySchema, names ...string) *hcl.BodySchema {
	for _, name := range names {
		schema.Blocks = append(schema.Blocks, hcl.BlockHeaderSchema{Type: name})
	}
	return schema
}
