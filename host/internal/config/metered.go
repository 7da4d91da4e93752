package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// meterBody has all expressions of a body charge for their evaluation.
func (b *budget) meterBody(body *hclsyntax.Body) {
	for _, attr := range body.Attributes {
		attr.Expr = b.metered(attr.Expr)
	}
	for _, block := range body.Blocks {
		b.meterBody(block.Body)
	}
}

// metered returns an expression that charges for its evaluation: for each value
// that it refers to, each step of a loop, and each result of an operation. So
// what an expression costs is bounded by what it has paid for, also where it
// uses one value many times.
func (b *budget) metered(expr hclsyntax.Expression) hclsyntax.Expression {
	switch e := expr.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		return &meteredReference{ParenthesesExpr: &hclsyntax.ParenthesesExpr{Expression: e, SrcRange: e.SrcRange}, budget: b}
	case *hclsyntax.BinaryOpExpr:
		b.meter(&e.LHS, &e.RHS)
		return &meteredStep{Expression: e, budget: b}
	case *hclsyntax.ForExpr:
		b.meter(&e.CollExpr)
		b.meterSteps(&e.KeyExpr, &e.ValExpr, &e.CondExpr)
	case *hclsyntax.TemplateExpr:
		b.meterAll(e.Parts)
	case *hclsyntax.TemplateWrapExpr:
		b.meter(&e.Wrapped)
	case *hclsyntax.TemplateJoinExpr:
		b.meter(&e.Tuple)
	case *hclsyntax.ParenthesesExpr:
		b.meter(&e.Expression)
	case *hclsyntax.RelativeTraversalExpr:
		b.meter(&e.Source)
	case *hclsyntax.FunctionCallExpr:
		b.meterAll(e.Args)
		for i, arg := range e.Args {
			e.Args[i] = &meteredArgument{Expression: arg, budget: b}
		}
	case *hclsyntax.ConditionalExpr:
		b.meter(&e.Condition, &e.TrueResult, &e.FalseResult)
	case *hclsyntax.IndexExpr:
		b.meter(&e.Collection, &e.Key)
	case *hclsyntax.TupleConsExpr:
		b.meterAll(e.Exprs)
	case *hclsyntax.ObjectConsExpr:
		for i := range e.Items {
			b.meter(&e.Items[i].KeyExpr, &e.Items[i].ValueExpr)
		}
	case *hclsyntax.ObjectConsKeyExpr:
		if _, word := e.Wrapped.(*hclsyntax.ScopeTraversalExpr); !word {
			b.meter(&e.Wrapped)
		}
	case *hclsyntax.SplatExpr:
		b.meter(&e.Source, &e.Each)
	case *hclsyntax.UnaryOpExpr:
		b.meter(&e.Val)
	}
	return expr
}

func (b *budget) meter(exprs ...*hclsyntax.Expression) {
	for _, expr := range exprs {
		*expr = b.metered(*expr)
	}
}

func (b *budget) meterAll(exprs []hclsyntax.Expression) {
	for i := range exprs {
		exprs[i] = b.metered(exprs[i])
	}
}

// meterSteps has expressions charge each time that they are evaluated, for
// themselves and for what they give.
func (b *budget) meterSteps(exprs ...*hclsyntax.Expression) {
	for _, expr := range exprs {
		if *expr != nil {
			rng := (*expr).Range()
			*expr = &meteredStep{Expression: b.metered(*expr), budget: b, units: stepUnits + (rng.End.Byte-rng.Start.Byte)/unitBytes}
		}
	}
}

// meteredReference is a reference that charges for the value. It is in
// parentheses so that who walks through an expression finds it.
type meteredReference struct {
	*hclsyntax.ParenthesesExpr
	budget *budget
}

// UnwrapExpression has the hcl library find the reference.
func (e *meteredReference) UnwrapExpression() hcl.Expression { return e.Expression }

// Value implements hcl.Expression.
func (e *meteredReference) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	v, diags := e.Expression.Value(ctx)
	return e.budget.pay(e, 0, v, diags)
}

// meteredStep is an expression that charges for itself and for its value.
type meteredStep struct {
	hclsyntax.Expression
	budget *budget
	units  int
}

// Value implements hcl.Expression.
func (e *meteredStep) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	if e.budget.spent {
		return e.budget.pay(e, 1, cty.DynamicVal, nil)
	}
	v, diags := e.Expression.Value(ctx)
	return e.budget.pay(e, e.units, v, diags)
}

// UnwrapExpression has the hcl library find what this stands for.
func (e *meteredStep) UnwrapExpression() hcl.Expression { return e.Expression }

// meteredArgument is one of a function, which may have its elements converted.
type meteredArgument struct {
	hclsyntax.Expression
	budget *budget
}

// Value implements hcl.Expression.
func (e *meteredArgument) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	v, diags := e.Expression.Value(ctx)
	if diags.HasErrors() || e.budget.chargeConversion(v) == nil {
		return v, diags
	}
	return cty.DynamicVal, hcl.Diagnostics{fault(e, "Value too large", tooLarge())}
}

// UnwrapExpression has the hcl library find what this stands for.
func (e *meteredArgument) UnwrapExpression() hcl.Expression { return e.Expression }

// pay charges for the evaluation of an expression.
func (b *budget) pay(expr hcl.Expression, units int, v cty.Value, diags hcl.Diagnostics) (cty.Value, hcl.Diagnostics) {
	if diags.HasErrors() {
		return v, diags
	}
	err := b.charge(units)
	if err == nil {
		err = b.chargeValue(v)
	}
	if err == nil {
		return v, diags
	}
	return cty.DynamicVal, hcl.Diagnostics{fault(expr, "Value too large", tooLarge())}
}

func fault(expr hcl.Expression, summary, detail string) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: expr.Range().Ptr()}
}

// jsonValue evaluates an expression in JSON. The hcl library would parse its
// strings anew, with nothing that charges in them.
func (d *decoder) jsonValue(expr hcl.Expression, ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	if pairs, diags := hcl.ExprMap(expr); !diags.HasErrors() {
		return d.jsonObject(pairs, ctx)
	}
	if list, diags := hcl.ExprList(expr); !diags.HasErrors() {
		values := make([]cty.Value, len(list))
		var all hcl.Diagnostics
		for i, element := range list {
			var diags hcl.Diagnostics
			values[i], diags = d.jsonValue(element, ctx)
			all = append(all, diags...)
		}
		return cty.TupleVal(values), all
	}
	v, diags := expr.Value(nil)
	if diags.HasErrors() || v.IsNull() || v.Type() != cty.String {
		return v, diags
	}
	start := expr.Range().Start
	template, diags := hclsyntax.ParseTemplate([]byte(v.AsString()), expr.Range().Filename,
		hcl.Pos{Line: start.Line, Column: start.Column + 1, Byte: start.Byte + 1})
	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}
	return d.scope.budget.metered(template).Value(ctx)
}

func (d *decoder) jsonObject(pairs []hcl.KeyValuePair, ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	values := make(map[string]cty.Value, len(pairs))
	var all hcl.Diagnostics
	for _, pair := range pairs {
		key, diags := d.jsonValue(pair.Key, ctx)
		value, valueDiags := d.jsonValue(pair.Value, ctx)
		all = append(append(all, diags...), valueDiags...)
		if all.HasErrors() {
			continue
		}
		key, marks := key.Unmark()
		name, err := convert.Convert(key, cty.String)
		if err != nil || name.IsNull() {
			return cty.DynamicVal, append(all, fault(pair.Key, "Not a key", "The key of a map must be a string."))
		}
		if _, dup := values[name.AsString()]; dup {
			all = append(all, fault(pair.Key, "Duplicate name", "This name is already set in the same map."))
		}
		values[name.AsString()] = value.WithMarks(marks)
	}
	return cty.ObjectVal(values), all
}
