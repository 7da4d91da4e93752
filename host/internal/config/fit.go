package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Settings is what the config block says, as a JSON object, before any schema;
// null without one.
func (s Service) Settings() []byte {
	text, _ := json.Marshal(s.Config) // it was made to be JSON
	return text
}

// FitConfig returns what the service's plugin, which declares a JSON Schema, is
// configured with, as a JSON object: texts, numbers and booleans are converted to
// what the schema wants. An empty schema stands for a plugin that takes no
// configuration. The error is a *FitError if the configuration does not fit, and
// another one if the schema itself cannot be used.
func (s Service) FitConfig(schema []byte) ([]byte, error) {
	if len(schema) == 0 {
		if s.Config == nil {
			return nil, nil
		}
		return nil, &FitError{[]Diagnostic{{
			Severity: SeverityError, Summary: "No configuration wanted", Range: s.Config.header,
			Detail: "The plugin declares no configuration. Remove the config block.",
		}}}
	}
	compiled, err := compileSchema(schema)
	if err != nil {
		return nil, &schemaError{err}
	}
	config := s.configOrEmpty()
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	values, err := decodeJSON(text)
	if err != nil {
		return nil, err
	}
	values = convertTo(compiled, values)
	err = compiled.Validate(values)
	var invalid *jsonschema.ValidationError
	if errors.As(err, &invalid) {
		f := fitter{config: config, absent: s.Config == nil, schema: compiled}
		f.gather(invalid)
		return nil, &FitError{f.found}
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(values)
}

// schemaError says why a plugin's schema cannot be used.
type schemaError struct{ error }

func (e *schemaError) Error() string {
	return "the schema that the plugin declares for its configuration cannot be used: " + e.error.Error()
}

func (e *schemaError) Unwrap() error { return e.error }

// CheckJSON says what is wrong with a plugin's schema, or with a JSON document
// that is to fit it.
func CheckJSON(schema, document []byte) error {
	compiled, err := compileSchema(schema)
	if err != nil {
		return &schemaError{err}
	}
	values, err := decodeJSON(document)
	if err != nil {
		return fmt.Errorf("the configuration is not JSON: %w", err)
	}
	err = compiled.Validate(values)
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	f := fitter{config: &PluginConfig{}, schema: compiled}
	f.gather(invalid)
	return &FitError{f.found}
}

// configOrEmpty is the config block, or one without settings that stands where
// the service does.
func (s Service) configOrEmpty() *PluginConfig {
	if s.Config != nil {
		return s.Config
	}
	return &PluginConfig{header: s.Range}
}

// ConfigFault is the error for what the plugin itself finds wrong with a setting.
func (s Service) ConfigFault(path []string, text string) error {
	config := s.configOrEmpty()
	if config.secrets != nil {
		text = config.secrets.replacer().Replace(text)
	}
	return &FitError{[]Diagnostic{{
		Severity: SeverityError, Summary: "Setting refused by the plugin", Range: config.place(path).value,
		Detail: fmt.Sprintf("%s: %s.", settingName(path), strings.TrimRight(text, ".")),
	}}}
}

// FitError says what of a configuration a plugin does not take.
type FitError struct {
	Diagnostics []Diagnostic
}

func (e *FitError) Error() string {
	lines := make([]string, len(e.Diagnostics))
	for i, d := range e.Diagnostics {
		lines[i] = d.Error()
	}
	return strings.Join(lines, "\n")
}

// Permanent reports that a retry would not help.
func (e *FitError) Permanent() bool { return true }

// CheckPlugins checks the configurations of the services whose plugins' schemas
// are given; an empty one is of a plugin that takes no configuration. Plugins
// that could not be asked for theirs are warned of. What was found while the
// configuration was read is in what it returns, too.
func (c *Config) CheckPlugins(schemas map[Ref][]byte, unasked map[Ref]error) *Diagnostics {
	diags := collector{list: slices.Clone(c.warnings)}
	if c.secrets != nil {
		diags.secrecy = *c.secrets
	}
	for _, s := range c.Services {
		if err := unasked[s.Ref()]; err != nil {
			diags.warnf(s.Range, "Plugin could not be asked", "service.%s: what it can be configured with is not known, and its config block was not checked: %s", s.Ref(), err)
		}
		schema, known := schemas[s.Ref()]
		if !known {
			continue
		}
		_, err := s.FitConfig(schema)
		var misfit *FitError
		switch {
		case errors.As(err, &misfit):
			diags.list = append(diags.list, misfit.Diagnostics...)
		case err != nil:
			diags.errorf(s.Range, "Configuration cannot be checked", "service.%s: %s.", s.Ref(), err)
		}
	}
	return diags.finish(slices.Sorted(maps.Keys(c.Files)), c.Files)
}

// maxSchema bounds what a plugin may declare, in bytes.
const maxSchema = 256 << 10

// compileSchema compiles what a plugin declared, of which nothing is trusted: it
// can load nothing, and numbers in it cannot fill the memory.
func compileSchema(schema []byte) (*jsonschema.Schema, error) {
	if len(schema) > maxSchema {
		return nil, fmt.Errorf("it is larger than %d KiB", maxSchema>>10)
	}
	doc, err := decodeJSON(schema)
	if err != nil {
		return nil, err
	}
	if !plainNumbers(doc) {
		return nil, errors.New("a number in it is too large or too small")
	}
	if err := checkExpansion(doc); err != nil {
		return nil, err
	}
	const name = "plugin:config"
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(jsonschema.SchemeURLLoader{})
	if err := compiler.AddResource(name, doc); err != nil {
		return nil, err
	}
	return compiler.Compile(name)
}

// decodeJSON keeps numbers as they are written.
func decodeJSON(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var doc any
	if err := decoder.Decode(&doc); err != nil {
		return nil, err
	}
	return doc, nil
}

// plainNumbers reports whether no number in a document is huge or tiny. The
// validator computes with exact fractions, which would have all the digits.
func plainNumbers(doc any) bool {
	switch doc := doc.(type) {
	case map[string]any:
		for _, v := range doc {
			if !plainNumbers(v) {
				return false
			}
		}
	case []any:
		return !slices.ContainsFunc(doc, func(v any) bool { return !plainNumbers(v) })
	case json.Number:
		const most = 400 // digits, and in the exponent what makes as many
		_, exponent, _ := strings.Cut(strings.ToLower(string(doc)), "e")
		n, err := strconv.Atoi(exponent)
		return len(doc) <= most && (exponent == "" || err == nil && n <= most && n >= -most)
	}
	return true
}

// convertTo converts texts, numbers and booleans to what a schema wants, where
// they can be: what comes from an environment variable, say, is a text.
func convertTo(schema *jsonschema.Schema, v any) any {
	schema = target(schema)
	if schema == nil {
		return v
	}
	switch value := v.(type) {
	case map[string]any:
		for name := range value {
			value[name] = convertTo(below(schema, name), value[name])
		}
	case []any:
		for i := range value {
			value[i] = convertTo(below(schema, strconv.Itoa(i)), value[i])
		}
	case string:
		return convertText(schema.Types, value)
	case json.Number:
		if wantsOnly(schema.Types, "string") {
			return value.String()
		}
	case bool:
		if wantsOnly(schema.Types, "string") {
			return strconv.FormatBool(value)
		}
	}
	return v
}

func convertText(types *jsonschema.Types, text string) any {
	switch {
	case wantsOnly(types, "number"), wantsOnly(types, "integer"):
		number, err := decodeJSON([]byte(text))
		if _, ok := number.(json.Number); ok && err == nil && plainNumbers(number) {
			return number
		}
	case wantsOnly(types, "boolean") && (text == "true" || text == "false"):
		return text == "true"
	}
	return text
}

// wantsOnly reports whether a type is the one that is allowed, beside null.
func wantsOnly(types *jsonschema.Types, name string) bool {
	if types == nil {
		return false
	}
	list := slices.DeleteFunc(types.ToStrings(), func(t string) bool { return t == "null" })
	return len(list) == 1 && list[0] == name
}

// target follows references.
func target(schema *jsonschema.Schema) *jsonschema.Schema {
	for n := 0; schema != nil && schema.Ref != nil && n < 10; n++ {
		schema = schema.Ref
	}
	return schema
}

// below is the schema of a part of what a schema describes, or nil if it is not
// plain from it.
func below(schema *jsonschema.Schema, name string) *jsonschema.Schema {
	if schema = target(schema); schema == nil {
		return nil
	}
	if property := schema.Properties[name]; property != nil {
		return property
	}
	if schema.Items2020 != nil {
		return schema.Items2020
	}
	if items, ok := schema.Items.(*jsonschema.Schema); ok {
		return items
	}
	additional, _ := schema.AdditionalProperties.(*jsonschema.Schema)
	return additional
}

// fitter words what does not fit.
type fitter struct {
	config *PluginConfig
	absent bool // there is no block
	schema *jsonschema.Schema
	found  []Diagnostic
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
