package pluginconfig

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// dialect is that of the schemas.
const dialect = "https://json-schema.org/draft/2020-12/schema"

// schemaOf derives the schema of a struct, whose values are the defaults.
func schemaOf(value reflect.Value) ([]byte, error) {
	schema, err := jsonschema.ForType(value.Type(), &jsonschema.ForOptions{
		TypeSchemas: map[reflect.Type]*jsonschema.Schema{
			reflect.TypeFor[Duration](): {Type: "string", Pattern: durationPattern},
		},
	})
	if err != nil {
		return nil, err
	}
	if err := refine(schema, value.Type(), value); err != nil {
		return nil, err
	}
	schema.Schema = dialect
	return json.Marshal(schema)
}

// refine adds to the schema of a struct what its tags say and, if there is a
// value, the defaults.
func refine(schema *jsonschema.Schema, typ reflect.Type, value reflect.Value) error {
	for _, field := range reflect.VisibleFields(typ) {
		name := nameOf(field)
		property := schema.Properties[name]
		if property == nil || field.Anonymous {
			continue
		}
		notNull(property)
		if err := refineField(property, field); err != nil {
			return fmt.Errorf("field %s: %w", field.Name, err)
		}
		var now reflect.Value
		if value.IsValid() {
			now = value.FieldByIndex(field.Index)
		}
		if err := refineType(property, field.Type, now); err != nil {
			return fmt.Errorf("field %s: %w", field.Name, err)
		}
		if now.IsValid() && !now.IsZero() {
			if err := setDefault(property, now); err != nil {
				return fmt.Errorf("field %s: %w", field.Name, err)
			}
			schema.Required = slices.DeleteFunc(schema.Required, func(required string) bool { return required == name })
		}
	}
	return nil
}

// refineType goes on into the structs of a field.
func refineType(schema *jsonschema.Schema, typ reflect.Type, value reflect.Value) error {
	switch {
	case typ == reflect.TypeFor[time.Duration]():
		return fmt.Errorf("a time.Duration is a mere number in JSON; use %s", reflect.TypeFor[Duration]())
	case typ.Kind() == reflect.Pointer:
		if value.IsValid() {
			value = value.Elem() // of nil: no value
		}
		return refineType(schema, typ.Elem(), value)
	case typ.Kind() == reflect.Struct && schema.Properties != nil:
		return refine(schema, typ, value)
	case schema.Items != nil:
		return refineType(schema.Items, typ.Elem(), reflect.Value{})
	case schema.AdditionalProperties != nil && typ.Kind() == reflect.Map:
		return refineType(schema.AdditionalProperties, typ.Elem(), reflect.Value{})
	}
	return nil
}

// notNull leaves null out of the types: an argument that is null is absent.
func notNull(schema *jsonschema.Schema) {
	if len(schema.Types) == 2 && schema.Types[0] == "null" {
		schema.Type, schema.Types = schema.Types[1], nil
	}
}

// setDefault tells a default, unless it is a secret.
func setDefault(schema *jsonschema.Schema, value reflect.Value) (err error) {
	if schema.WriteOnly {
		return nil
	}
	schema.Default, err = json.Marshal(value.Interface())
	return err
}

func nameOf(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	if name == "" {
		return field.Name
	}
	return name
}

// refineField adds what the tag plughost says.
func refineField(schema *jsonschema.Schema, field reflect.StructField) error {
	tag, ok := field.Tag.Lookup("plughost")
	if !ok {
		return nil
	}
	for word := range strings.SplitSeq(tag, ",") {
		key, argument, _ := strings.Cut(word, "=")
		var err error
		switch key {
		case "sensitive":
			schema.WriteOnly = true
		case "enum":
			for one := range strings.SplitSeq(argument, "|") {
				schema.Enum = append(schema.Enum, one)
			}
		case "minimum":
			schema.Minimum, err = bound(argument)
		case "maximum":
			schema.Maximum, err = bound(argument)
		default:
			err = fmt.Errorf("the tag plughost does not know %q", key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func bound(text string) (*float64, error) {
	number, err := strconv.ParseFloat(text, 64)
	return &number, err
}
