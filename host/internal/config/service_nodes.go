package config

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// serviceNodes are the attributes of one service, as what refers to them finds
// them. They are made when they are first referred to.
type serviceNodes struct {
	d     *decoder
	block *hcl.Block
	nodes map[string]*node // by name, such as health.interval
}

// declareService makes the attributes of a service known to expressions. Of
// services that are declared twice the first one counts.
func (d *decoder) declareService(block *hcl.Block) {
	ref := Ref{Kind: Kind(block.Labels[0]), Name: block.Labels[1]}
	if near := suggest(block.Labels[0], kindNames()); near != "" {
		ref.Kind = Kind(near) // as it is decoded
	}
	if d.scope.services[ref] == nil {
		d.scope.services[ref] = &serviceNodes{d: d, block: block, nodes: make(map[string]*node)}
	}
}

// serviceNode finds what a reference to an attribute of a service stands for, or
// reports that it stands for nothing. Steps is how much of the reference names
// it.
func (d *decoder) serviceNode(traversal hcl.Traversal, rng func(int) hcl.Range) (n *node, steps int) {
	words, _ := traversalWords(traversal)
	if len(words) < 3 {
		d.diags.errorf(rng(len(words)), "A name is wanted",
			"The value of a service is written service.KIND.NAME.ATTRIBUTE, such as service.mcp.clock.port; kind and name cannot be computed.")
		return nil, 0
	}
	if !slices.Contains(kindNames(), words[1]) {
		d.diags.errorf(rng(3), "Unknown kind of service", "A service is of kind mcp or agent, not %s.%s", quote(words[1]), didYouMean(words[1], kindNames()))
		return nil, 0
	}
	ref := Ref{Kind: Kind(words[1]), Name: words[2]}
	service := d.scope.services[ref]
	if service == nil {
		d.scope.undeclaredService(rng(3), ref)
		return nil, 0
	}
	if len(words) < 4 {
		d.diags.errorf(rng(3), "An attribute is wanted", "A service as a whole has no value. Name the attribute that is meant, such as service.%s.port.", ref)
		return nil, 0
	}
	schema, steps := serviceSchema, 4
	if below, ok := serviceSchema.block(words[3]); ok {
		if below.Open {
			d.diags.errorf(rng(4), "Not a value", "What is in a %s block is the plugin's own, and cannot be used elsewhere. Write it in locals, and refer to that in both places.", words[3])
			return nil, 0
		}
		if schema, steps = below, 5; len(words) < steps {
			d.diags.errorf(rng(4), "An attribute is wanted", "%s is a block. Name the argument of it that is meant, such as service.%s.%s.%s.",
				words[3], ref, words[3], below.Attributes[0].Name)
			return nil, 0
		}
	}
	name := words[steps-1]
	attribute, ok := schema.attribute(name)
	switch {
	case !ok:
		d.diags.errorf(rng(steps), "Unknown attribute", "%s has no attribute %s.%s", strings.Join(words[:steps-1], "."), quote(name), didYouMean(name, attributeNames(schema)))
		return nil, 0
	case attribute.Type == TypeReferences:
		d.diags.errorf(rng(steps), "Not a value", "%s names services; it has no value that could be used elsewhere.", name)
		return nil, 0
	}
	return service.node(words[3:steps], attribute), steps
}

func attributeNames(b Block) []string {
	names := make([]string, len(b.Attributes))
	for i, a := range b.Attributes {
		names[i] = a.Name
	}
	return names
}

// undeclaredService reports a reference to a service that is not declared,
// unless it may well be in a file that could not be read.
func (s *scope) undeclaredService(rng hcl.Range, ref Ref) {
	if s.partial {
		return
	}
	hint := ""
	if s.hints++; s.hints <= maxHints {
		var names []string
		for other := range s.services {
			switch {
			case other.Name == ref.Name:
				hint = " Did you mean service." + other.String() + "?"
			case other.Kind == ref.Kind:
				names = append(names, other.Name)
			}
		}
		slices.Sort(names)
		if near := suggest(ref.Name, names); hint == "" && near != "" {
			hint = " Did you mean service." + Ref{Kind: ref.Kind, Name: near}.String() + "?"
		}
	}
	s.diags.errorf(rng, "Service not declared", "service.%s is not declared.%s", ref, hint)
}

// node returns the attribute at a path, which is of one word or, in a block, of
// two.
func (s *serviceNodes) node(path []string, attribute Attribute) *node {
	name := strings.Join(path, ".")
	if n := s.nodes[name]; n != nil {
		return n
	}
	n := &node{
		name:  strings.Join(slices.Concat([]string{"service"}, s.block.Labels, path), "."),
		d:     s.d,
		expr:  s.find(path),
		typed: attribute.convert,
	}
	if n.expr == nil {
		n.state, n.value = known, attribute.defaultValue()
	}
	s.nodes[name] = n
	return n
}

// find returns the expression of an attribute, or nil.
func (s *serviceNodes) find(path []string) hcl.Expression {
	body, schema := s.block.Body, serviceSchema
	for len(path) > 1 {
		content, _, _ := body.PartialContent(schema.schema())
		schema, _ = schema.block(path[0])
		i := slices.IndexFunc(content.Blocks, func(b *hcl.Block) bool { return b.Type == path[0] })
		if i < 0 {
			return nil
		}
		body, path = content.Blocks[i].Body, path[1:]
	}
	content, _, _ := body.PartialContent(schema.schema())
	if attr := content.Attributes[path[0]]; attr != nil {
		return attr.Expr
	}
	return nil
}

// convert gives a value the type of the attribute. One that cannot have it is
// reported where the service is decoded.
func (a Attribute) convert(v cty.Value) (cty.Value, bool) {
	if v.IsNull() {
		return a.defaultValue(), true
	}
	var want cty.Type
	switch a.Type {
	case TypeNumber:
		want = cty.Number
	case TypeBool:
		want = cty.Bool
	case TypeString, TypePath, TypeDuration, TypeSize:
		want = cty.String
	case TypeStrings:
		want = cty.List(cty.String)
	case TypeMap:
		want = cty.Map(cty.String)
	default:
		return v, true
	}
	v, err := convert.Convert(v, want)
	return v, err == nil
}

// defaultValue is what the attribute is where it is not given: null, if that is
// no constant.
func (a Attribute) defaultValue() cty.Value {
	if a.Default == "" {
		return cty.NullVal(cty.DynamicPseudoType)
	}
	expr, diags := hclsyntax.ParseExpression([]byte(a.Default), "", hcl.InitialPos)
	if diags.HasErrors() {
		return cty.NullVal(cty.DynamicPseudoType)
	}
	v, _ := expr.Value(nil)
	return v
}
