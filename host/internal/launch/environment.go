package launch

import (
	"maps"
	"slices"
	"strings"

	"github.com/plughost/plughost/shared/marker"
)

// Environment is what a service's processes are given: of the host's own
// variables those that inherit names, and over them those that set gives. All
// that plughost and go-plugin use is left out, whatever it came from.
func Environment(hostEnv, inherit []string, set map[string]string) []string {
	vars := make(map[string]string)
	for _, entry := range hostEnv {
		name, value, ok := strings.Cut(entry, "=")
		if ok && slices.Contains(inherit, name) {
			vars[name] = value
		}
	}
	maps.Copy(vars, set)
	env := make([]string, 0, len(vars))
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if !reserved(name) {
			env = append(env, name+"="+vars[name])
		}
	}
	return env
}

// reserved reports whether a variable is plughost's or go-plugin's. A host
// that was itself started with one (by another go-plugin host, say) must not
// pass it on: PLUGIN_CLIENT_CERT alone makes a plugin crash.
func reserved(name string) bool {
	return strings.HasPrefix(name, "PLUGHOST_") || strings.HasPrefix(name, "PLUGIN_") || marker.IsMarker(name)
}
