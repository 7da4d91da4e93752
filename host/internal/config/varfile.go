package config

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// varFlags reads what flags give to variables.
func (l *loader) varFlags(s *scope, flags []string) map[string]given {
	values := make(map[string]given)
	for _, flag := range flags {
		name, text, ok := strings.Cut(flag, "=")
		name = strings.TrimSpace(name)
		v := s.variables[name]
		switch {
		case !ok:
			l.diags.errorf(hcl.Range{}, "Not a value for a variable", "--var: NAME=VALUE is wanted, and there is no = in it.")
		case v != nil:
			if g, ok := v.ofText(text, "--var "+name); ok {
				values[name] = g
			}
		case !s.partial:
			l.diags.errorf(hcl.Range{}, "Variable not declared", "--var %s: no variable of that name is declared.%s", name, didYouMean(name, variableNames(s)))
		}
	}
	return values
}

func variableNames(s *scope) []string { return slices.Sorted(maps.Keys(s.variables)) }

// varFiles reads what files give to variables.
func (l *loader) varFiles(s *scope, paths []string) map[string]given {
	values := make(map[string]given)
	for _, path := range paths {
		l.varFile(s, path, values)
	}
	return values
}

func (l *loader) varFile(s *scope, path string, values map[string]given) {
	src := l.openVarFile(path)
	if src == nil {
		return
	}
	// What stands in it cannot be told apart before it is parsed.
	secrets := slices.ContainsFunc(slices.Collect(maps.Values(s.variables)), func(v *variable) bool { return v.sensitive })
	if !l.parse(src, src.text) {
		if secrets {
			l.diags.hideFile(path)
		}
		return
	}
	attrs, diags := src.body.JustAttributes()
	if diags.HasErrors() && secrets {
		l.diags.hideFile(path)
	}
	l.diags.native(diags)
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		attr := attrs[name]
		v := s.variables[name]
		if v == nil {
			if !s.partial {
				l.diags.warnf(attr.NameRange, "Variable not declared", "No variable of the name %s is declared, so this has no effect.%s", name, didYouMean(name, variableNames(s)))
			}
			continue
		}
		if v.sensitive {
			l.diags.hide(attr.Range)
		}
		// Without a scope: a file of values refers to nothing and calls nothing.
		value, diags := attr.Expr.Value(nil)
		l.diags.native(diags)
		if diags.HasErrors() {
			v.node.state = failed
			continue
		}
		values[name] = given{value: value, rng: attr.Expr.Range(), from: name}
	}
}

// openVarFile reads a file of values, but does not parse it.
func (l *loader) openVarFile(path string) *source {
	if ext := filepath.Ext(path); ext != ".hcl" && ext != ".json" {
		l.diags.errorf(hcl.Range{Filename: path}, "Not a file of variables", "--var-file: the name %s ends in neither .hcl nor .json.", quote(path))
		return nil
	}
	text, err := readRegular(path)
	if err != nil {
		l.diags.osError("File of variables cannot be read", err, "--var-file: %s: %s.", quote(path), reason(err))
		return nil
	}
	l.names = append(l.names, path)
	return &source{name: path, text: text, dir: filepath.Dir(path), json: strings.HasSuffix(path, ".json")}
}
