package config

import (
	"cmp"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
)

var localsSchema = Block{
	Type: "locals", Many: true, Open: true,
	Doc: "Values with names, for use in the files.",
}

// declareLocals reads a locals block, all but the values. It returns what it
// declares, in the order of the file.
func (d *decoder) declareLocals(block *hcl.Block) (declared []*node) {
	attrs, diags := block.Body.JustAttributes()
	d.diags.native(diags)
	sorted := slices.SortedFunc(maps.Values(attrs), func(a, b *hcl.Attribute) int {
		return cmp.Compare(a.NameRange.Start.Byte, b.NameRange.Start.Byte)
	})
	for _, attr := range sorted {
		if before := d.scope.locals[attr.Name]; before != nil {
			d.diags.errorf(attr.NameRange, "Duplicate local", "local.%s is already declared at %s.", attr.Name, before.rng)
			continue
		}
		n := &node{name: "local." + attr.Name, rng: attr.NameRange, d: d, expr: attr.Expr}
		d.scope.locals[attr.Name] = n
		declared = append(declared, n)
	}
	return declared
}
