package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// fitter words what does not fit.
type fitter struct {
	config *PluginConfig
	absent bool // there is no block
	schema *jsonschema.Schema
	found  []Diagnostic
}

// validate returns a *FitError with what does not fit.
func (f *fitter) validate(values any) error {
	err := f.schema.Validate(values)
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	f.gather(invalid)
	return &FitError{f.found}
}

// gather goes down to the causes that have a place of their own.
func (f *fitter) gather(err *jsonschema.ValidationError) {
	switch err.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf, *kind.Not, *kind.Contains, *kind.PropertyNames:
		f.report(err)
		return
	}
	if len(err.Causes) == 0 {
		f.report(err)
	}
	for _, cause := range err.Causes {
		f.gather(cause)
	}
}

func (f *fitter) add(at spot, byName bool, summary, format string, args ...any) {
	rng := at.value
	if byName {
		rng = at.name
	}
	f.found = append(f.found, Diagnostic{Severity: SeverityError, Summary: summary, Detail: fmt.Sprintf(format, args...), Range: rng, safe: true})
}

// report words one fault. Values are not told: they may be secrets.
func (f *fitter) report(err *jsonschema.ValidationError) {
	path := err.InstanceLocation
	at, name := f.config.place(path), settingName(path)
	switch k := err.ErrorKind.(type) {
	case *kind.Required:
		for _, missing := range k.Missing {
			f.missing(path, missing)
		}
	case *kind.AdditionalProperties:
		for _, extra := range k.Properties {
			f.unknown(path, extra)
		}
	case *kind.FalseSchema:
		f.unknown(path[:max(len(path)-1, 0)], name)
	case *kind.Type:
		f.add(at, false, "Wrong type of value", "%s: %s is required; this is %s.", name, typeWords(k.Want), typeWords([]string{k.Got}))
	case *kind.Enum:
		f.add(at, false, "Unknown value", "%s can be %s.%s", name, listed(valueWords(k.Want), "or"), f.nearestValue(at, path, k))
	case *kind.Minimum:
		f.add(at, false, "Number out of range", "%s: at least %s is wanted.", name, k.Want.RatString())
	case *kind.Maximum:
		f.add(at, false, "Number out of range", "%s: at most %s is wanted.", name, k.Want.RatString())
	case *kind.Pattern:
		f.add(at, false, "Text of a wrong form", "%s: a text is wanted that matches %s.%s", name, k.Want, f.about(path))
	case *kind.Format:
		f.add(at, false, "Text of a wrong form", "%s: a text of the form %q is wanted.%s", name, k.Want, f.about(path))
	case *kind.AnyOf, *kind.OneOf:
		f.add(at, false, "Value not allowed", "%s: it has none of the forms that the plugin takes.%s", name, f.about(path))
	default:
		text := err.ErrorKind.LocalizedString(message.NewPrinter(language.English))
		f.add(at, false, "Value not allowed", "%s: %s.%s", name, text, f.about(path))
	}
}

func (f *fitter) missing(path []string, name string) {
	full := append(slices.Clone(path), name)
	if f.absent {
		f.add(f.config.place(nil), false, "Configuration missing",
			"The plugin needs a config block in which %s is set.%s", name, f.about(full))
		return
	}
	f.add(f.config.place(path), false, "Setting missing", "%s is required.%s", settingName(full), f.about(full))
}

func (f *fitter) unknown(path []string, name string) {
	var known []string
	if schema := f.at(path); schema != nil {
		known = slices.Sorted(maps.Keys(schema.Properties))
	}
	hint := didYouMean(name, known)
	if hint == "" && len(known) > 0 && len(known) <= 12 {
		hint = " There is " + listed(known, "and") + "."
	}
	full := append(slices.Clone(path), name)
	f.add(f.config.place(full), true, "Unknown setting", "The plugin has no setting %s.%s", settingName(full), hint)
}

// at is the schema of what a path leads to, or nil.
func (f *fitter) at(path []string) *jsonschema.Schema {
	schema := target(f.schema)
	for _, name := range path {
		schema = target(below(schema, name))
	}
	return schema
}

// about is the description of a setting, as a sentence with a space before it.
func (f *fitter) about(path []string) string {
	schema := f.at(path)
	if schema == nil || schema.Description == "" {
		return ""
	}
	return " The plugin says of it: " + strings.TrimRight(schema.Description, ".") + "."
}

// nearestValue hints at the value that was meant, unless it is a secret.
func (f *fitter) nearestValue(at spot, path []string, k *kind.Enum) string {
	given, ok := k.Got.(string)
	if schema := f.at(path); !ok || at.secret || schema != nil && schema.WriteOnly {
		return ""
	}
	var texts []string
	for _, want := range k.Want {
		if text, ok := want.(string); ok {
			texts = append(texts, text)
		}
	}
	return didYouMean(given, texts)
}

func valueWords(values []any) []string {
	words := make([]string, len(values))
	for i, v := range values {
		text, _ := json.Marshal(v) // it came from JSON
		words[i] = string(text)
	}
	return words
}

// typeWords says types of JSON in the words of the language.
func typeWords(types []string) string {
	words := map[string]string{
		"null": "null", "boolean": "a boolean", "number": "a number", "integer": "a whole number",
		"string": "a string", "array": "a list", "object": "a block or a map",
	}
	var list []string
	for _, t := range types {
		if t != "null" || len(types) == 1 {
			list = append(list, words[t])
		}
	}
	return listed(list, "or")
}
