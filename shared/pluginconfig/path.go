package pluginconfig

import (
	"reflect"
	"strings"
)

// pathText writes a path for people.
func pathText(path []string) string {
	return strings.Join(append([]string{"config"}, path...), ".")
}

// splitPath is the path that encoding/json writes with dots.
func splitPath(field string) []string {
	if field == "" {
		return nil
	}
	return strings.Split(field, ".")
}

// kindOf is the kind of a JSON value as encoding/json tells it, which adds the
// value itself to some.
func kindOf(value string) string {
	kind, _, _ := strings.Cut(value, " ")
	return kind
}

// wanted says in words what a field takes.
func wanted(typ reflect.Type) string {
	switch typ.Kind() {
	case reflect.Bool:
		return "a boolean"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	default:
		return "a number"
	}
}
