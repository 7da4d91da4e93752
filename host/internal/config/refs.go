package config

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// references reads a list of references to services, such as
// [service.mcp.clock]. They are names, not values, so nothing is evaluated.
func (d *decoder) references(attrs hcl.Attributes, name string) []val[Ref] {
	attr := attrs[name]
	if attr == nil {
		return nil
	}
	exprs, diags := hcl.ExprList(attr.Expr)
	if diags.HasErrors() {
		if v, diags := attr.Expr.Value(nil); !diags.HasErrors() && v.IsNull() {
			return nil
		}
		d.diags.errorf(attr.Expr.Range(), "A list is wanted",
			"%s: a list of references is wanted, such as [%s].", name, d.refText("mcp", "clock"))
		return nil
	}
	var refs []val[Ref]
	first := make(map[Ref]hcl.Range)
	for _, expr := range exprs {
		ref, ok := d.reference(expr, name)
		if !ok {
			continue
		}
		if before, dup := first[ref]; dup {
			d.diags.warnf(expr.Range(), "Duplicate reference", "%s: service.%s is already listed at %s.", name, ref, before)
			continue
		}
		first[ref] = expr.Range()
		refs = append(refs, val[Ref]{V: ref, Range: expr.Range(), Set: true})
	}
	return refs
}

// reference reads one reference.
func (d *decoder) reference(expr hcl.Expression, name string) (Ref, bool) {
	traversal, diags := hcl.AbsTraversalForExpr(expr)
	if diags.HasErrors() {
		d.diags.errorf(expr.Range(), "A reference is wanted", "%s: %s", name, d.referenceAdvice(expr))
		return Ref{}, false
	}
	words, ok := traversalWords(traversal)
	kinds := kindNames()
	isKind := func(w string) bool { return w == kinds[0] || w == kinds[1] }
	switch {
	case ok && len(words) == 2 && isKind(words[0]):
		d.diags.errorf(expr.Range(), "A reference is wanted", "%s: a reference begins with the word service: write %s.", name, d.refText(words[0], words[1]))
	case !ok || len(words) < 3 || words[0] != "service":
		d.diags.errorf(expr.Range(), "A reference is wanted", "%s: a reference to a service is wanted, such as %s.", name, d.refText("mcp", "clock"))
	case len(words) > 3:
		d.diags.errorf(expr.Range(), "A reference is wanted", "%s: it is the service itself that is wanted, not a part of it: write %s.", name, d.refText(words[1], words[2]))
	case !isKind(words[1]):
		d.diags.errorf(expr.Range(), "Unknown kind of service", "%s: a service is of kind mcp or agent, not %s.%s", name, quote(words[1]), didYouMean(words[1], kinds))
	default:
		return Ref{Kind: Kind(words[1]), Name: words[2]}, true
	}
	return Ref{}, false
}

// refText writes a reference as the file's syntax wants it.
func (d *decoder) refText(kind, name string) string {
	text := "service." + kind + "." + name
	if d.src.json {
		return quote(text)
	}
	return text
}

// traversalWords returns the steps of a reference; ok is false if one of them
// is not a name.
func traversalWords(traversal hcl.Traversal) (words []string, ok bool) {
	for _, step := range traversal {
		switch step := step.(type) {
		case hcl.TraverseRoot:
			words = append(words, step.Name)
		case hcl.TraverseAttr:
			words = append(words, step.Name)
		case hcl.TraverseIndex:
			if step.Key.Type() != cty.String || step.Key.IsNull() || !step.Key.IsKnown() {
				return words, false
			}
			words = append(words, step.Key.AsString())
		default:
			return words, false
		}
	}
	return words, true
}

// referenceAdvice says what to write in place of what is not a reference.
func (d *decoder) referenceAdvice(expr hcl.Expression) string {
	example := "a reference to a service is wanted, such as " + d.refText("mcp", "clock")
	v, diags := expr.Value(nil)
	if d.src.json || diags.HasErrors() || !v.IsWhollyKnown() || v.IsNull() || v.Type() != cty.String {
		return example + "."
	}
	text := strings.TrimSpace(v.AsString())
	if traversal, diags := hclsyntax.ParseTraversalAbs([]byte(text), "", hcl.InitialPos); !diags.HasErrors() {
		if words, ok := traversalWords(traversal); ok && len(words) == 3 && words[0] == "service" {
			return fmt.Sprintf("a reference is wanted, not a text: remove the quotes, and write %s.", text)
		}
	}
	return example + ", without quotes."
}
