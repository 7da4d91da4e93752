package config

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// envVarPrefix begins the names of the variables of the environment that give
// values to variables of the language.
const envVarPrefix = "PLUGHOST_VAR_"

var variableSchema = Block{
	Type: "variable", Labels: []string{"name"}, Many: true,
	Doc: "A value that is given from outside of the files.",
	Attributes: []Attribute{
		{
			Name: "type", Type: TypeConstraint, DefaultDoc: "`any`", Example: "list(string)",
			Doc: "what it takes: `string`, `number`, `bool`, `any`, `list(...)`, `set(...)`, `map(...)`, `tuple([...])`, or `object({...})` with `optional(TYPE, DEFAULT)` for what may be left out",
		},
		{Name: "default", Type: TypeAny, DefaultDoc: "none: it must be given", Example: `"UTC"`, Doc: "what it is if it is not given. It may call functions, but refer to nothing"},
		{Name: "description", Type: TypeString, DefaultDoc: "none", Example: `"The time zone of the clock"`, Doc: "for people"},
		{Name: "sensitive", Type: TypeBool, Default: "false", Doc: "its value, and what is made from it, is shown nowhere; see [below](#sensitive-values)"},
		{Name: "nullable", Type: TypeBool, Default: "true", Doc: "it may be null. If `false`, null means the default"},
	},
	Blocks: []Block{validationSchema},
}

var validationSchema = Block{
	Type: "validation", Many: true,
	Doc: "What must hold of the value.",
	Attributes: []Attribute{
		{Name: "condition", Type: TypeBool, Required: true, Example: `length(var.zone) > 0`, Doc: "an expression that must be true"},
		{Name: "error_message", Type: TypeString, Required: true, Example: `"A zone is wanted."`, Doc: "what is said if it is not"},
	},
}

// variable is a declared variable.
type variable struct {
	*decoder
	name        string
	label       hcl.Range
	constraint  cty.Type
	defaults    *typeexpr.Defaults
	fallback    *hcl.Attribute // nil if there is no default
	sensitive   bool
	nullable    bool
	validations []validation
	node        *node
}

// validation is one condition on a variable.
type validation struct {
	condition hcl.Expression
	message   hcl.Expression
}

// given is a value that a variable was given.
type given struct {
	value cty.Value
	// rng is where it stands, or the label of the variable if it stands in no
	// file.
	rng hcl.Range
	// from says who gave it, such as --var, or is empty for its default.
	from string
}

// declareVariable reads a variable block, all but the value.
func (d *decoder) declareVariable(block *hcl.Block) *variable {
	v := &variable{decoder: d, name: block.Labels[0], label: block.LabelRanges[0], constraint: cty.DynamicPseudoType}
	v.node = &node{name: "var." + v.name, state: failed}
	before := d.scope.variables[v.name]
	switch {
	case !hclsyntax.ValidIdentifier(v.name):
		d.diags.errorf(v.label, "Not a valid name", "The name of a variable begins with a letter and goes on with letters, digits, dashes and underscores.")
		return v
	case before != nil:
		d.diags.errorf(v.label, "Duplicate variable", "The variable %s is already declared at %s.", v.name, before.label)
		return v
	}
	d.scope.variables[v.name] = v

	content, ok := d.content(block.Body, variableSchema)
	attrs := content.Attributes
	typeOK := v.readType(attrs["type"])
	d.str(attrs, "description", "")
	v.fallback = attrs["default"]
	sensitive := d.boolean(attrs, "sensitive", false)
	v.sensitive = sensitive.V || attrs["sensitive"] != nil && !sensitive.Set // what is not clear is not shown
	v.nullable = d.boolean(attrs, "nullable", true).V
	for _, block := range content.Blocks {
		v.validation(block)
	}
	if ok && typeOK {
		v.node.state = unseen
	}
	if v.sensitive && v.fallback != nil {
		d.diags.hide(v.fallback.Expr.Range())
	}
	return v
}

func (v *variable) readType(attr *hcl.Attribute) bool {
	if attr == nil {
		return true
	}
	constraint, defaults, diags := typeexpr.TypeConstraintWithDefaults(attr.Expr)
	v.diags.native(diags)
	if diags.HasErrors() {
		return false
	}
	v.constraint, v.defaults = constraint, defaults
	return true
}

func (v *variable) validation(block *hcl.Block) {
	content, _ := v.content(block.Body, validationSchema)
	condition, message := content.Attributes["condition"], content.Attributes["error_message"]
	if condition == nil || message == nil {
		v.diags.errorf(content.MissingItemRange, "Missing argument", "A validation needs a condition, and an error_message that says what is wrong if it does not hold.")
		return
	}
	v.validations = append(v.validations, validation{condition: condition.Expr, message: message.Expr})
}

// settleVariables gives every variable its value: that of a flag, of a file, of
// the environment, or its default.
func (l *loader) settleVariables(s *scope, in Input, declared []*variable) {
	files := l.varFiles(s, in.VarFiles)
	flags := l.varFlags(s, in.Vars)
	for _, v := range declared {
		if v.node.state == failed {
			continue
		}
		v.node.state = failed
		g, ok := flags[v.name]
		if !ok {
			g, ok = files[v.name]
		}
		if !ok {
			g, ok = v.ofEnvironment()
		}
		if !ok {
			g, ok = v.ofDefault()
		}
		if ok {
			v.settle(g)
		}
	}
}

// ofEnvironment returns what the host's environment gives to the variable.
func (v *variable) ofEnvironment() (given, bool) {
	name := envVarPrefix + v.name
	text, ok := os.LookupEnv(name)
	if !ok {
		return given{}, false
	}
	return v.ofText(text, name)
}

// ofText takes a value apart that stands in no file. Where a text is wanted it
// is taken as it is; else it is an expression.
func (v *variable) ofText(text, from string) (given, bool) {
	g := given{rng: v.label, from: from}
	if v.constraint.IsPrimitiveType() || v.constraint == cty.DynamicPseudoType {
		g.value = cty.StringVal(text)
		return g, true
	}
	value, problem := literal(text)
	if problem != "" {
		if v.sensitive {
			problem = sensitiveReason
		}
		v.diags.errorf(v.label, "Not an expression", "%s: a value of type %s is wanted, written as in a file: %s", from, typeexpr.TypeString(v.constraint), problem)
		return g, false
	}
	g.value = value
	return g, true
}

// literal evaluates an expression that refers to nothing.
func literal(text string) (v cty.Value, problem string) {
	var guard collector
	if _, ok := guardNative([]byte(text), "", &guard); !ok {
		return cty.NilVal, guard.list[0].Summary + "."
	}
	expr, diags := hclsyntax.ParseExpression([]byte(text), "", hcl.InitialPos)
	if !diags.HasErrors() {
		v, diags = expr.Value(nil)
	}
	if diags.HasErrors() {
		return cty.NilVal, diags[0].Summary + ". " + diags[0].Detail
	}
	return v, ""
}

// ofDefault returns the default, or reports that there is no value.
func (v *variable) ofDefault() (given, bool) {
	if v.fallback == nil {
		v.diags.errorf(v.label, "No value for a variable",
			"The variable %[1]s is not set, and has no default. Set it with --var %[1]s=VALUE, in a file that --var-file names, or with %[2]s%[1]s in the environment; or give it a default.",
			v.name, envVarPrefix)
		return given{}, false
	}
	rng := v.fallback.Expr.Range()
	if refs := v.fallback.Expr.Variables(); len(refs) > 0 {
		v.diags.errorf(v.within(refs[0].SourceRange(), v.fallback.Expr), "Reference in a default",
			"default: it cannot refer to anything, since it may be replaced from outside. What is computed belongs into a locals block.")
		return given{}, false
	}
	value, ok := v.evaluateMarked(v.fallback.Expr)
	return given{value: value, rng: rng}, ok
}

// settle takes a value, if it is of the right type.
func (v *variable) settle(g given) {
	value := g.value
	if value.IsNull() && !v.nullable {
		if g.from == "" {
			v.diags.errorf(g.rng, "Null for a variable", "default: it cannot be null, as nullable is false.")
			return
		}
		if g, ok := v.ofDefault(); ok {
			v.settle(g)
		}
		return
	}
	if v.sensitive {
		value = value.Mark(sensitiveMark)
		v.diags.secret(value)
	}
	if v.defaults != nil && !value.IsNull() {
		value = v.defaults.Apply(value)
	}
	if cost(value, maxValue) > maxValue || v.scope.budget.chargeConversion(value) != nil {
		v.diags.errorf(g.rng, "Value too large", "%s", tooLarge())
		return
	}
	value, err := convert.Convert(value, v.constraint)
	if err != nil {
		v.mistypedValue(g, err)
		return
	}
	if cost(value, maxValue) > maxValue { // a text that is a number of very many digits
		v.diags.errorf(g.rng, "Value too large", "%s", tooLarge())
		return
	}
	v.node.state, v.node.value = known, value
}

// mistypedValue reports a value that is not of the variable's type.
func (v *variable) mistypedValue(g given, err error) {
	from := "default"
	if g.from != "" {
		from = g.from
	}
	where := ""
	var path cty.PathError
	if errors.As(err, &path) && len(path.Path) > 0 {
		where = " in " + pathText(path.Path)
	}
	v.diags.errorf(g.rng, "Wrong type of value", "%s: the variable %s is of type %s: %s%s.", from, v.name, typeexpr.TypeString(v.constraint), err, where)
}

// pathText writes the place of a value in a larger one. Keys of a map are left
// out: they may be a secret.
func pathText(path cty.Path) string {
	var b strings.Builder
	for _, step := range path {
		switch step := step.(type) {
		case cty.GetAttrStep:
			fmt.Fprintf(&b, ".%s", step.Name)
		case cty.IndexStep:
			if step.Key.Type() == cty.Number {
				fmt.Fprintf(&b, "[%s]", step.Key.AsBigFloat().String())
			} else {
				b.WriteString("[...]")
			}
		}
	}
	return b.String()
}

// validate checks the conditions on the variables that have a value.
func (v *variable) validate() {
	if v.node.state != known {
		return
	}
	for _, check := range v.validations {
		condition, ok := v.evaluate(check.condition)
		if !ok {
			continue
		}
		rng := check.condition.Range()
		holds, err := convert.Convert(condition, cty.Bool)
		if err != nil || holds.IsNull() {
			v.mistyped(rng, "condition", "true or false", condition)
			continue
		}
		if holds.True() {
			continue
		}
		if message, ok := v.evaluate(check.message); ok {
			v.invalid(rng, check.message.Range(), message)
		}
	}
}

func (v *variable) invalid(rng, messageRange hcl.Range, message cty.Value) {
	text, ok := v.text(message, messageRange, "error_message")
	if !ok {
		return
	}
	if v.diags.isSensitive(messageRange) {
		text = "The message holds a sensitive value, so it is not shown."
	}
	// The condition may well have been sensitive; its message is not.
	v.diags.list = append(v.diags.list, Diagnostic{
		Severity: SeverityError, Summary: "Invalid value for a variable", safe: true,
		Detail: fmt.Sprintf("The value of the variable %s is refused: %s", v.name, text), Range: rng,
	})
}
