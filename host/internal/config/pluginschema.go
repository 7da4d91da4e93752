package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

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
