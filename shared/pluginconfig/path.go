package pluginconfig

import "strings"

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
