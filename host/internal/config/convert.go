package config

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

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
