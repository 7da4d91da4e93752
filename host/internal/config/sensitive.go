package config

import (
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// mark is what a value carries through expressions.
type mark string

// sensitiveMark is on values that are shown nowhere.
const sensitiveMark mark = "sensitive"

const (
	sensitiveValue  = "(sensitive value)"
	sensitiveReason = "the value is sensitive, so what is wrong with it is not shown."
)

// secrecy is what messages must not show.
type secrecy struct {
	results map[hcl.Range]bool // of expressions whose value is sensitive
	latest  []hcl.Range        // of these, in the order of evaluation
	hidden  []hcl.Range        // of text that holds sensitive values
	files   map[string]bool    // that may hold them anywhere
	texts   []string           // of the values
}

// minSecret is how long a secret must be to be looked for in messages. What is
// shorter would be found in any text.
const minSecret = 3 // bytes

// sensitive says that the value of the expression at rng is not to be shown.
func (s *secrecy) sensitive(rng hcl.Range) {
	if s.results == nil {
		s.results = make(map[hcl.Range]bool)
	}
	s.results[rng] = true
	s.latest = append(s.latest, rng)
}

func (s *secrecy) isSensitive(rng hcl.Range) bool { return s.results[rng] }

// hide says that the text at rng is not to be shown.
func (s *secrecy) hide(rng hcl.Range) { s.hidden = append(s.hidden, rng) }

// hideFile says that no text of a file is to be shown.
func (s *secrecy) hideFile(name string) {
	if s.files == nil {
		s.files = make(map[string]bool)
	}
	s.files[name] = true
}

// secret says that a value, or what is marked in it, is to be shown nowhere.
func (s *secrecy) secret(v cty.Value) {
	_ = cty.Walk(v, func(_ cty.Path, v cty.Value) (bool, error) {
		if !v.IsMarked() {
			return true, nil
		}
		v, _ = v.UnmarkDeep()
		s.leaves(v)
		return false, nil
	})
}

func (s *secrecy) leaves(v cty.Value) {
	_ = cty.Walk(v, func(_ cty.Path, v cty.Value) (bool, error) {
		if text, err := convert.Convert(v, cty.String); err == nil && text.IsKnown() && !text.IsNull() {
			if text := text.AsString(); len(text) >= minSecret {
				s.texts = append(s.texts, text)
			}
		}
		return true, nil
	})
}

// attributePath is how the details of findings name the attribute.
var attributePath = regexp.MustCompile(`^[A-Za-z0-9_.\[\]-]+: `)

// redact takes from a finding what must not be shown.
func (s *secrecy) redact(d *Diagnostic, replacer *strings.Replacer) {
	if s.isSensitive(d.Range) && !d.safe {
		d.Detail = attributePath.FindString(d.Detail) + sensitiveReason
	}
	d.Summary, d.Detail = replacer.Replace(d.Summary), replacer.Replace(d.Detail)
	d.hidden = s.covers(d.Range)
}

// replacer replaces the texts of sensitive values.
func (s *secrecy) replacer() *strings.Replacer {
	pairs := make([]string, 0, 2*len(s.texts))
	for _, text := range s.texts {
		pairs = append(pairs, text, sensitiveValue)
	}
	return strings.NewReplacer(pairs...)
}

// covers reports whether the lines of a range hold what must not be shown.
func (s *secrecy) covers(rng hcl.Range) bool {
	if s.files[rng.Filename] {
		return true
	}
	for _, h := range s.hidden {
		if h.Filename == rng.Filename && h.Start.Line <= rng.End.Line && rng.Start.Line <= h.End.Line {
			return true
		}
	}
	return false
}

// sensitiveAttributes returns the names of the attributes in which expressions at
// some ranges stand.
func (d *decoder) sensitiveAttributes(block *hcl.Block, schema Block, prefix string, ranges []hcl.Range) (names []string) {
	if len(ranges) == 0 {
		return nil
	}
	content, _, _ := block.Body.PartialContent(schema.schema())
	for name, attr := range content.Attributes {
		for _, rng := range ranges {
			if inside(rng, attr.Expr.Range()) {
				names = append(names, prefix+name+d.entryAt(attr.Expr, rng))
			}
		}
	}
	for _, below := range content.Blocks {
		if described, ok := schema.block(below.Type); ok && !described.Open {
			names = append(names, d.sensitiveAttributes(below, described, prefix+below.Type+".", ranges)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// secretArguments warns of sensitive values where the system shows them.
func (d *decoder) secretArguments(s *serviceDecl, attrs hcl.Attributes) {
	for _, name := range []string{"command", "exec"} {
		if attr := attrs[name]; attr != nil && s.Path != "" && s.IsSensitive(name) {
			d.diags.warnf(attr.NameRange, "Sensitive argument",
				"%s: whoever can list the processes of this machine sees the arguments of a program. Pass a sensitive value in env.", name)
		}
	}
}

// entryAt returns the name in a map whose value stands at a range, after a dot;
// or nothing, if it is no map or the names cannot be told apart.
func (d *decoder) entryAt(expr hcl.Expression, rng hcl.Range) string {
	pairs, diags := hcl.ExprMap(expr)
	if diags.HasErrors() {
		return ""
	}
	for _, pair := range pairs {
		if !inside(rng, pair.Value.Range()) {
			continue
		}
		if key, ok := d.key(pair.Key); ok && key.Type() == cty.String && !key.IsNull() {
			return "." + key.AsString()
		}
	}
	return ""
}
