package config

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// val is a value that remembers where it was written. Set is false if it was
// not given, was null, or was faulty; V is the default then.
type val[T any] struct {
	V     T
	Range hcl.Range
	Set   bool
}

// evaluate returns the value of an expression. What is wrong with it has been
// reported if ok is false. Whether the value is sensitive is remembered for its
// place.
func (d *decoder) evaluate(expr hcl.Expression) (v cty.Value, ok bool) {
	v, ok = d.evaluateMarked(expr)
	return unmarked(v), ok
}

func unmarked(v cty.Value) cty.Value {
	if v.ContainsMarked() {
		v, _ = v.UnmarkDeep()
	}
	return v
}

// evaluateMarked returns a value that bears marks where it is sensitive.
func (d *decoder) evaluateMarked(expr hcl.Expression) (v cty.Value, ok bool) {
	needs, ok := d.needs(expr)
	for _, n := range needs {
		d.scope.settle(n.node)
	}
	if !ok {
		return cty.DynamicVal, false
	}
	return d.value(expr, needs)
}

// value evaluates an expression all of whose needs are settled.
func (d *decoder) value(expr hcl.Expression, needs []need) (v cty.Value, ok bool) {
	if d.scope.budget.spent {
		return cty.DynamicVal, false // that has been reported
	}
	root, secret := make(object), d.mentionsSensitive(expr)
	for _, n := range needs {
		if n.node.state != known {
			return cty.DynamicVal, false
		}
		secret = secret || n.node.value.ContainsMarked()
		root.put(n.path, n.node.value)
	}
	v, diags := d.run(expr, &hcl.EvalContext{Variables: root.values(), Functions: d.functions})
	if d.scope.budget.spent {
		d.diags.errorf(expr.Range(), "Evaluation takes too much", "Here the evaluation of the configuration was given up, since it could exhaust the host. What a configuration needs is far below that: is something repeated again and again?")
		return cty.DynamicVal, false
	}
	for _, diag := range diags {
		if diag.Subject == nil {
			diag.Subject = expr.Range().Ptr()
		}
		*diag.Subject = d.within(*diag.Subject, expr)
		if secret {
			diag.Detail = "This failed on a sensitive value, so the reason is not shown."
		}
	}
	d.diags.native(diags)
	if diags.HasErrors() {
		return cty.DynamicVal, false
	}
	if cost(v, maxValue) > maxValue {
		d.diags.errorf(expr.Range(), "Value too large", "%s", tooLarge())
		return cty.DynamicVal, false
	}
	if !v.IsWhollyKnown() {
		d.diags.errorf(expr.Range(), "Value cannot be determined", "The value of this expression cannot be known in advance.")
		return cty.DynamicVal, false
	}
	if v.ContainsMarked() {
		d.diags.sensitive(expr.Range())
		d.diags.secret(v)
	}
	return v, true
}

func (d *decoder) run(expr hcl.Expression, ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	if d.src.json {
		return d.jsonValue(expr, ctx)
	}
	return expr.Value(ctx)
}

// mentionsSensitive reports whether an expression makes a value sensitive. What
// it is made from may be written there, and is not shown either.
func (d *decoder) mentionsSensitive(expr hcl.Expression) bool {
	rng := expr.Range()
	if end := min(rng.End.Byte, len(d.src.text)); rng.Start.Byte >= end || !bytes.Contains(d.src.text[rng.Start.Byte:end], []byte("sensitive")) {
		return false
	}
	d.diags.hide(rng)
	return true
}

func inside(inner, outer hcl.Range) bool {
	return inner.Start.Byte >= outer.Start.Byte && inner.End.Byte <= outer.End.Byte && inner.Start.Line <= outer.End.Line
}

// interpolated reports whether what is at a range stands right after ${.
func (d *decoder) interpolated(rng hcl.Range) bool {
	before := bytes.TrimRight(d.src.text[:min(rng.Start.Byte, len(d.src.text))], " ~")
	return bytes.HasSuffix(before, []byte("${"))
}

// attribute evaluates an attribute that may be absent; null is the same as
// absent.
func (d *decoder) attribute(attrs hcl.Attributes, name string) (v cty.Value, rng hcl.Range, ok bool) {
	attr := attrs[name]
	if attr == nil {
		return cty.NilVal, hcl.Range{}, false
	}
	v, ok = d.evaluate(attr.Expr)
	if !ok || v.IsNull() {
		return cty.NilVal, attr.Expr.Range(), false
	}
	return v, attr.Expr.Range(), true
}

// mistyped reports a value of the wrong type.
func (d *decoder) mistyped(rng hcl.Range, path, want string, got cty.Value) {
	is := "it is null"
	if !got.IsNull() {
		is = "this is a " + typeName(got.Type())
	}
	d.diags.errorf(rng, "Wrong type of value", "%s: %s is required; %s.", path, want, is)
}

// typeName says a type in the words of the language.
func typeName(t cty.Type) string {
	switch {
	case t.IsTupleType() || t.IsListType() || t.IsSetType():
		return "list"
	case t.IsObjectType() || t.IsMapType():
		return "map"
	case t == cty.Bool:
		return "boolean"
	default:
		return t.FriendlyName()
	}
}

// text converts a value to a string.
func (d *decoder) text(v cty.Value, rng hcl.Range, path string) (string, bool) {
	s, err := convert.Convert(v, cty.String)
	if err != nil || s.IsNull() {
		d.mistyped(rng, path, "a string", v)
		return "", false
	}
	if strings.ContainsRune(s.AsString(), 0) {
		d.diags.errorf(rng, "Zero byte in text", "%s: the system allows no zero byte here.", path)
		return "", false
	}
	return s.AsString(), true
}

// str reads a string.
func (d *decoder) str(attrs hcl.Attributes, name, fallback string) val[string] {
	out := val[string]{V: fallback}
	v, rng, ok := d.attribute(attrs, name)
	out.Range = rng
	if !ok {
		return out
	}
	if s, ok := d.text(v, rng, name); ok {
		out.V, out.Set = s, true
	}
	return out
}

// oneOf reads a string that is one of a few words.
func (d *decoder) oneOf(attrs hcl.Attributes, name, fallback string, words ...string) val[string] {
	out := d.str(attrs, name, fallback)
	if out.Set && !slices.Contains(words, out.V) {
		d.diags.errorf(out.Range, "Unknown "+strings.ReplaceAll(name, "_", " "), "%s can be %s, but not %s.%s",
			name, listed(words, "or"), quote(out.V), didYouMean(out.V, words))
		out.V, out.Set = fallback, false
	}
	return out
}

// duration reads a span of time that is not below least.
func (d *decoder) duration(attrs hcl.Attributes, name string, fallback, least time.Duration) val[time.Duration] {
	out := val[time.Duration]{V: fallback}
	v, rng, ok := d.attribute(attrs, name)
	out.Range = rng
	if !ok {
		return out
	}
	if v.Type() == cty.Number {
		d.diags.errorf(rng, "A unit is needed", `%s: a number alone says no span of time. Write it with a unit, for instance "%ss".`,
			name, numberText(v))
		return out
	}
	s, ok := d.text(v, rng, name)
	if !ok {
		return out
	}
	span, err := time.ParseDuration(strings.TrimSpace(s))
	switch {
	case err != nil:
		d.diags.errorf(rng, "Not a duration", "%s", durationAdvice(name, s))
	case span < least && least > 1:
		d.diags.errorf(rng, "Duration too short", "%s: at least %s is wanted.", name, least)
	case span < least && least > 0:
		d.diags.errorf(rng, "Duration too short", "%s: a span above zero is wanted.", name)
	case span < least:
		d.diags.errorf(rng, "Duration too short", "%s: a span of time cannot be negative.", name)
	default:
		out.V, out.Set = span, true
	}
	return out
}

func durationAdvice(name, s string) string {
	s = strings.TrimSpace(s)
	number := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	unit := strings.TrimSpace(s[len(number):])
	if f, err := strconv.ParseFloat(number, 64); err == nil && math.Abs(f) < 1e6 {
		if unit == "" {
			return fmt.Sprintf(`%s: a number alone says no span of time. Write it with a unit, for instance "%ss".`, name, number)
		}
		day := map[string]float64{"d": 24, "day": 24, "days": 24, "w": 168, "week": 168, "weeks": 168}[strings.ToLower(unit)]
		if day > 0 {
			return fmt.Sprintf(`%s: the longest unit is the hour. Write "%sh".`, name, strconv.FormatFloat(f*day, 'f', -1, 64))
		}
		if short := suggest(unit, []string{"seconds", "secs", "minutes", "mins", "hours", "hrs"}); short != "" {
			return fmt.Sprintf(`%s: %s is no unit. Write "%s%s".`, name, quote(unit), number, short[:1])
		}
	}
	return fmt.Sprintf(`%s: %s is no span of time. Write numbers with the units ms, s, m and h, for instance "30s" or "1m30s".`, name, quote(s))
}

// number reads a number.
func (d *decoder) number(attrs hcl.Attributes, name, want string) val[*big.Float] {
	out := val[*big.Float]{}
	v, rng, ok := d.attribute(attrs, name)
	out.Range = rng
	if !ok {
		return out
	}
	n, err := convert.Convert(v, cty.Number)
	if err != nil || n.IsNull() {
		d.mistyped(rng, name, want, v)
		return out
	}
	out.V, out.Set = n.AsBigFloat(), true
	return out
}

// whole reads a whole number from least to most.
func (d *decoder) whole(attrs hcl.Attributes, name string, fallback, least, most int) val[int] {
	want := fmt.Sprintf("a whole number from %d to %d", least, most)
	if most == math.MaxInt32 {
		want = fmt.Sprintf("a whole number from %d on", least)
	}
	n := d.number(attrs, name, want)
	out := val[int]{V: fallback, Range: n.Range}
	if !n.Set {
		return out
	}
	i, accuracy := n.V.Int64()
	if !n.V.IsInt() || accuracy != big.Exact || i < int64(least) || i > int64(most) {
		d.diags.errorf(n.Range, "Number out of range", "%s: %s is wanted.", name, want)
		return out
	}
	out.V, out.Set = int(i), true
	return out
}

// decimal reads a number for which ok holds; want says what that means.
func (d *decoder) decimal(attrs hcl.Attributes, name string, fallback float64, want string, ok func(float64) bool) val[float64] {
	n := d.number(attrs, name, want)
	out := val[float64]{V: fallback, Range: n.Range}
	if !n.Set {
		return out
	}
	f, _ := n.V.Float64()
	if math.IsInf(f, 0) || !ok(f) {
		d.diags.errorf(n.Range, "Number out of range", "%s: %s is wanted.", name, want)
		return out
	}
	out.V, out.Set = f, true
	return out
}

// numberText writes a number for an example.
func numberText(v cty.Value) string {
	f, _ := v.AsBigFloat().Float64()
	if math.Abs(f) > 1e6 {
		return "30"
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// strings reads a list of strings; example is shown where something else is
// given. ok is false if an element was faulty or the attribute was.
func (d *decoder) strings(attrs hcl.Attributes, name, want string) (list []val[string], set, ok bool) {
	attr := attrs[name]
	if attr == nil {
		return nil, false, true
	}
	element := func(i int, v cty.Value, rng hcl.Range) {
		path := fmt.Sprintf("%s[%d]", name, i)
		if v.IsNull() {
			d.diags.errorf(rng, "Null in a list", "%s: element %d is null; a string is required.", name, i)
			ok = false
			return
		}
		s, good := d.text(v, rng, path)
		if !good {
			ok = false
			return
		}
		list = append(list, val[string]{V: s, Range: rng, Set: true})
	}

	ok = true
	if exprs, diags := hcl.ExprList(attr.Expr); !diags.HasErrors() {
		for i, expr := range exprs {
			if v, good := d.evaluate(expr); good {
				element(i, v, expr.Range())
			} else {
				ok = false
			}
		}
		return list, true, ok
	}

	v, good := d.evaluate(attr.Expr)
	rng := attr.Expr.Range()
	switch {
	case !good:
		return nil, true, false
	case v.IsNull():
		return nil, false, true
	case !isList(v.Type()):
		d.diags.errorf(rng, "A list is wanted", "%s: %s", name, listAdvice(name, want, v))
		return nil, true, false
	}
	i := 0
	for it := v.ElementIterator(); it.Next(); i++ {
		_, item := it.Element()
		element(i, item, rng)
	}
	return list, true, ok
}

func isList(t cty.Type) bool { return t.IsTupleType() || t.IsListType() || t.IsSetType() }

// listAdvice says how a value that is no list would be written as one.
func listAdvice(name, want string, v cty.Value) string {
	advice := "a list is wanted, " + want
	if v.Type() != cty.String || strings.ContainsAny(v.AsString(), "\"'`\\\n$%") {
		return advice + "."
	}
	words := strings.Fields(v.AsString())
	if len(words) == 0 || len(words) > 12 {
		return advice + "."
	}
	for i, w := range words {
		words[i] = quote(w)
	}
	return fmt.Sprintf("%s: %s = [%s].", advice, name, strings.Join(words, ", "))
}

// entry is one pair of a map of strings.
type entry struct {
	key, value val[string]
}

// entries reads a map of strings. A key that is given twice is a fault, and one
// whose value is null is left out.
func (d *decoder) entries(attrs hcl.Attributes, name string) []entry {
	attr := attrs[name]
	if attr == nil {
		return nil
	}
	pairs, diags := hcl.ExprMap(attr.Expr)
	if diags.HasErrors() {
		return d.computedEntries(attr, name)
	}
	var list []entry
	first := make(map[string]hcl.Range)
	for _, pair := range pairs {
		k, keyOK := d.key(pair.Key)
		v, valueOK := d.evaluate(pair.Value)
		if !keyOK {
			continue
		}
		key, ok := d.text(k, pair.Key.Range(), "a name in "+name)
		if !ok {
			continue
		}
		if before, dup := first[key]; dup {
			d.diags.errorf(pair.Key.Range(), "Duplicate name", "%s.%s is already set at %s.", name, key, before)
			continue
		}
		first[key] = pair.Key.Range()
		if !valueOK || v.IsNull() {
			continue
		}
		if s, ok := d.text(v, pair.Value.Range(), name+"."+key); ok {
			list = append(list, entry{
				key:   val[string]{V: key, Range: pair.Key.Range(), Set: true},
				value: val[string]{V: s, Range: pair.Value.Range(), Set: true},
			})
		}
	}
	return list
}

// key evaluates the key of a map. A bare word is a text there, not a variable.
func (d *decoder) key(expr hcl.Expression) (cty.Value, bool) {
	if key, ok := expr.(*hclsyntax.ObjectConsKeyExpr); ok && !key.ForceNonLiteral {
		if _, bare := key.Wrapped.(*hclsyntax.ScopeTraversalExpr); bare {
			v, diags := key.Value(nil)
			d.diags.native(diags)
			return v, !diags.HasErrors()
		}
	}
	return d.evaluate(expr)
}

// computedEntries reads a map that is the result of a larger expression.
func (d *decoder) computedEntries(attr *hcl.Attribute, name string) []entry {
	v, ok := d.evaluate(attr.Expr)
	if !ok || v.IsNull() {
		return nil
	}
	rng := attr.Expr.Range()
	if !v.Type().IsObjectType() && !v.Type().IsMapType() {
		d.mistyped(rng, name, "a map of strings", v)
		return nil
	}
	var list []entry
	for it := v.ElementIterator(); it.Next(); {
		k, item := it.Element()
		if item.IsNull() {
			continue
		}
		if s, ok := d.text(item, rng, name+"."+k.AsString()); ok {
			list = append(list, entry{
				key:   val[string]{V: k.AsString(), Range: rng, Set: true},
				value: val[string]{V: s, Range: rng, Set: true},
			})
		}
	}
	return list
}
