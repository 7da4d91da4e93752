package config

import (
	"errors"
	"fmt"
	"math/big"
	"regexp/syntax"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// What the evaluation of a configuration may cost, in units: one is an element
// of a list or a map, or unitBytes bytes of text. It is far above what ten
// thousand services need, and takes about a second to spend.
const (
	unitBytes = 16
	maxCost   = 5_000_000 // of all expressions
	maxValue  = 100_000   // of one value
	stepUnits = 5         // of each step of a loop, beside its value
)

var (
	errBudget   = errors.New("evaluating this configuration takes too much")
	errTooLarge = errors.New("the value is too large")
)

// budget is what is left of what an evaluation may cost.
type budget struct {
	left  int
	spent bool
}

// charge takes units, of which there must be as many left.
func (b *budget) charge(units int) error {
	if units < 0 || units > b.left {
		b.left, b.spent = 0, true
		return errBudget
	}
	b.left -= units
	return nil
}

// chargeValue takes what a value costs.
func (b *budget) chargeValue(v cty.Value) error {
	units := cost(v, maxValue)
	if units > maxValue {
		return errTooLarge
	}
	return b.charge(units)
}

// chargeConversion takes what it may cost to find one type for all elements of a
// value, which compares each with each.
func (b *budget) chargeConversion(v cty.Value) error {
	v, _ = v.Unmark()
	if t := v.Type(); v.IsNull() || !t.IsTupleType() && !t.IsObjectType() {
		return nil
	}
	return b.charge(v.LengthInt() * cost(v, maxValue) / unitBytes)
}

// cost returns what a value costs, or more than limit if it is more than that,
// without looking at all of it.
func cost(v cty.Value, limit int) int {
	v, _ = v.Unmark()
	if !v.IsKnown() || v.IsNull() {
		return 1
	}
	switch t := v.Type(); {
	case t == cty.String:
		return 1 + len(v.AsString())/unitBytes
	case t == cty.Number:
		return 1 + digits(v.AsBigFloat())/unitBytes
	case !v.CanIterateElements():
		return 1
	}
	units := 1
	for it := v.ElementIterator(); it.Next() && units <= limit; {
		_, element := it.Element()
		units += cost(element, limit-units)
	}
	return units
}

// digits is about how many there are in a number when it is written out.
func digits(n *big.Float) int {
	if n.IsInf() {
		return 0
	}
	return max(n.MantExp(nil), -n.MantExp(nil)) / 3
}

// bound has a function charge for what it is given, for what it may make of
// that, and for what it has made.
func (b *budget) bound(name string, f function.Function) function.Function {
	return function.New(&function.Spec{
		Params:   f.Params(),
		VarParam: f.VarParam(),
		Type: func(args []cty.Value) (cty.Type, error) {
			if b.spent { // try and can evaluate their arguments for this
				return cty.NilType, errBudget
			}
			return f.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			for _, arg := range args {
				if err := b.chargeValue(arg); err != nil {
					return cty.NilVal, err
				}
			}
			units, err := growth(name, args)
			if err == nil {
				err = b.charge(units)
			}
			if err != nil {
				return cty.NilVal, err
			}
			v, err := f.Call(args)
			if err != nil {
				return v, err
			}
			return v, b.chargeValue(v)
		},
	})
}

// growth is what a call may cost beyond its arguments. Functions that are not
// named take as much time as their arguments are large.
func growth(name string, args []cty.Value) (units int, err error) {
	if !allKnown(args) {
		return 0, nil
	}
	switch name {
	case "can", "try":
		return 20, nil // each evaluates its arguments several times
	case "contains":
		return cost(args[0], maxValue) * cost(args[1], maxValue), nil
	case "compact", "distinct":
		n := cost(args[0], maxValue)
		return 10 * n * n, nil // each is compared with each
	case "format":
		return formatGrowth(args[0].AsString(), args[1:])
	case "join":
		elements := 0
		for _, list := range args[1:] {
			elements += cost(list, maxValue)
		}
		return elements * textLength(args[0]) / unitBytes, nil
	case "jsondecode":
		return textLength(args[0]), jsonDepth(args[0].AsString())
	case "jsonencode":
		return 6 * cost(args[0], maxValue), nil // as \u003c
	case "range":
		return 1024, nil
	case "regex":
		return regexGrowth(args[0].AsString(), textLength(args[1]))
	case "replace":
		return strings.Count(args[0].AsString(), args[1].AsString()) * textLength(args[2]) / unitBytes, nil
	case "split":
		return strings.Count(args[1].AsString(), args[0].AsString()), nil
	}
	return 0, nil
}

func allKnown(args []cty.Value) bool {
	for _, arg := range args {
		if !arg.IsKnown() || arg.IsNull() {
			return false
		}
	}
	return true
}

// textLength is how many bytes a value has as text, at the most.
func textLength(v cty.Value) int {
	if v.Type() == cty.String {
		return len(v.AsString())
	}
	return cost(v, maxValue) * unitBytes
}

// maxWidth bounds the width and the precision of a verb.
const maxWidth = 1000

// formatGrowth is what a format makes of its arguments: it may use one again and
// again, and make it as wide as it likes.
func formatGrowth(format string, args []cty.Value) (units int, err error) {
	longest := 0
	for _, arg := range args {
		longest = max(longest, textLength(arg))
	}
	length, number := 0, 0
	for _, c := range format {
		if c >= '0' && c <= '9' {
			if number = 10*number + int(c-'0'); number > maxWidth {
				return 0, function.NewArgErrorf(0, "a width or precision above %d is too much", maxWidth)
			}
			continue
		}
		length += number
		number = 0
		if c == '%' {
			length += longest
		}
	}
	return length / unitBytes, nil
}

// regexGrowth is what matching a text costs.
func regexGrowth(pattern string, length int) (units int, err error) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, nil // the function says so better
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0, nil
	}
	return len(program.Inst) * (1 + length/unitBytes), nil
}

// jsonDepth refuses a text of JSON that is deeper than a file may be: decoding
// it would recurse as deep.
func jsonDepth(text string) error {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = stringEnd([]byte(text), i) - 1
		case '{', '[':
			if depth++; depth > maxBrackets {
				return function.NewArgErrorf(0, "there are more than %d open brackets", maxBrackets)
			}
		case '}', ']':
			depth--
		}
	}
	return nil
}

// tooLarge says what to do about a value that is.
func tooLarge() string {
	return fmt.Sprintf("The value has more than %d elements, or as much text as that. Nobody needs that much: is something repeated in a circle?", maxValue)
}
