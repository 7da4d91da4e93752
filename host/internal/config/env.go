package config

import (
	"runtime"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// reservedPrefixes begin the names of variables that the host sets itself.
var reservedPrefixes = []string{"PLUGHOST_", "PLUGIN_"}

// variables reads the variables that are set for a service.
func (d *decoder) variables(attrs hcl.Attributes) map[string]string {
	env := make(map[string]string)
	first := make(map[string]val[string])
	for _, e := range d.entries(attrs, "env") {
		if !d.variableName(e.key, "env") {
			continue
		}
		id := variableID(e.key.V)
		if before, dup := first[id]; dup {
			d.diags.errorf(e.key.Range, "Duplicate name", "env.%s is the same variable as %s at %s.", e.key.V, before.V, before.Range)
			continue
		}
		first[id] = e.key
		env[e.key.V] = e.value.V
	}
	return env
}

// inherited reads the names of the variables that are passed on.
func (d *decoder) inherited(attrs hcl.Attributes) []string {
	list, _, _ := d.strings(attrs, "inherit", "one element per variable")
	var names []string
	first := make(map[string]hcl.Range)
	for _, item := range list {
		if !d.variableName(item, "inherit") {
			continue
		}
		id := variableID(item.V)
		if before, dup := first[id]; dup {
			d.diags.warnf(item.Range, "Duplicate name", "inherit: %s is already listed at %s.", item.V, before)
			continue
		}
		first[id] = item.Range
		names = append(names, item.V)
	}
	return names
}

// variableName checks the name of an environment variable.
func (d *decoder) variableName(name val[string], attr string) bool {
	switch {
	case name.V == "":
		d.diags.errorf(name.Range, "Not a variable name", "%s: the name of a variable cannot be empty.", attr)
		return false
	case strings.Contains(name.V, "="):
		d.diags.errorf(name.Range, "Not a variable name", "%s: the name of a variable cannot contain \"=\", as %s does.", attr, quote(name.V))
		return false
	}
	for _, prefix := range reservedPrefixes {
		if strings.HasPrefix(variableID(name.V), prefix) {
			d.diags.errorf(name.Range, "Reserved variable",
				"%s: names that begin with %s are the host's own, by which it knows its processes; %s can be neither set nor passed on.",
				attr, prefix, name.V)
			return false
		}
	}
	return true
}

// variableID maps names of the same variable to the same text: on Windows case
// makes no difference.
func variableID(name string) string {
	if runtime.GOOS == "windows" {
		return strings.ToUpper(name)
	}
	return name
}
