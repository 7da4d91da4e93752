package config

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// PluginConfig is what the config block of a service says. What it means, the
// plugin alone knows: it declares a schema for it, once it runs.
type PluginConfig struct {
	values  map[string]any  // objects, lists and, as json.RawMessage, the rest
	places  map[string]spot // by pointer
	header  hcl.Range
	secrets *secrecy
}

var configSchema = Block{
	Type: "config", Open: true,
	Doc: "What the plugin itself is configured with, checked against the schema that it declares.",
}

// spot is where a setting was written.
type spot struct {
	name, value hcl.Range
	secret      bool // the value was made from something sensitive
}

// MarshalJSON returns what the block says, before any schema.
func (p *PluginConfig) MarshalJSON() ([]byte, error) {
	if p.values == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(p.values)
}

// pluginConfig reads the config block of a service, if there is one.
func (d *decoder) pluginConfig(content *hcl.BodyContent) *PluginConfig {
	block := d.single(content, "config")
	if block == nil {
		return nil
	}
	p := &PluginConfig{places: make(map[string]spot), header: d.header(block), secrets: &d.diags.secrecy}
	r := settingsReader{decoder: d, places: p.places}
	p.values = r.body(block.Body, nil)
	return p
}

// settingsReader reads settings without knowing what there can be.
type settingsReader struct {
	*decoder
	places map[string]spot
}

// body reads a body: attributes, and blocks as objects.
func (r *settingsReader) body(body hcl.Body, path []string) map[string]any {
	object := make(map[string]any)
	native, ok := body.(*hclsyntax.Body)
	if !ok { // the JSON form, in which blocks cannot be told from attributes
		attrs, diags := body.JustAttributes()
		r.diags.native(diags)
		for name, attr := range attrs {
			r.setting(object, append(path, name), attr.NameRange, attr.Expr)
		}
		return object
	}
	for name, attr := range native.Attributes {
		r.setting(object, append(path, name), attr.NameRange, attr.Expr)
	}
	for _, block := range native.Blocks {
		r.block(object, append(path, block.Type), block)
	}
	return object
}

func (r *settingsReader) block(object map[string]any, path []string, block *hclsyntax.Block) {
	name := path[len(path)-1]
	if len(block.LabelRanges) > 0 {
		r.diags.errorf(block.LabelRanges[0], "Label in a configuration", "%s: blocks in a plugin's configuration have no labels.", settingName(path))
	}
	if before, dup := r.places[pointer(path)]; dup {
		r.diags.errorf(block.TypeRange, "Duplicate setting",
			"%s is already set at %s. Several objects are written as a list: %s = [{ ... }, { ... }].", settingName(path), before.name, name)
		return
	}
	r.places[pointer(path)] = spot{name: block.TypeRange, value: block.DefRange()}
	object[name] = r.body(block.Body, path)
}

// setting reads one setting into an object; null is the same as absent.
func (r *settingsReader) setting(object map[string]any, path []string, name hcl.Range, expr hcl.Expression) {
	r.places[pointer(path)] = spot{name: name, value: expr.Range()}
	if v, ok := r.value(expr, path); ok && v != nil {
		object[path[len(path)-1]] = v
	}
}

// value reads an expression, each part of an object or a list by itself, so that
// it has a place. A nil value is null.
func (r *settingsReader) value(expr hcl.Expression, path []string) (any, bool) {
	if pairs, diags := hcl.ExprMap(expr); !diags.HasErrors() {
		return r.object(pairs, path), true
	}
	if exprs, diags := hcl.ExprList(expr); !diags.HasErrors() {
		list := make([]any, len(exprs))
		for i, item := range exprs {
			at := slices.Concat(path, []string{strconv.Itoa(i)})
			r.places[pointer(at)] = spot{name: item.Range(), value: item.Range()}
			list[i], _ = r.value(item, at)
		}
		return list, true
	}
	v, ok := r.evaluateMarked(expr)
	if !ok || v.IsNull() {
		return nil, ok
	}
	v, marks := v.UnmarkDeep()
	if len(marks) > 0 {
		at := r.places[pointer(path)]
		at.secret = true
		r.places[pointer(path)] = at
	}
	if !writable(v) {
		r.diags.errorf(expr.Range(), "Number out of range", "%s: the number is too large or too small to be written.", settingName(path))
		return nil, false
	}
	text, err := ctyjson.Marshal(v, v.Type())
	if err != nil {
		r.diags.errorf(expr.Range(), "Value cannot be handed on", "%s: the value has no form in JSON.", settingName(path))
		return nil, false
	}
	return json.RawMessage(text), true
}

// object reads an object that is written out.
func (r *settingsReader) object(pairs []hcl.KeyValuePair, path []string) map[string]any {
	object := make(map[string]any)
	for _, pair := range pairs {
		k, ok := r.key(pair.Key)
		if !ok {
			continue
		}
		name, ok := r.text(k, pair.Key.Range(), "a name in "+settingName(path))
		if !ok {
			continue
		}
		at := slices.Concat(path, []string{name})
		if before, dup := r.places[pointer(at)]; dup {
			r.diags.errorf(pair.Key.Range(), "Duplicate setting", "%s is already set at %s.", settingName(at), before.name)
			continue
		}
		r.setting(object, at, pair.Key.Range(), pair.Value)
	}
	return object
}

// maxExponent bounds numbers, in powers of two: written out they must not fill
// the memory.
const maxExponent = 4096

func writable(v cty.Value) bool {
	ok := true
	_ = cty.Walk(v, func(_ cty.Path, v cty.Value) (bool, error) {
		if v.Type() == cty.Number && !v.IsNull() {
			exponent := v.AsBigFloat().MantExp(nil)
			ok = ok && !v.AsBigFloat().IsInf() && exponent <= maxExponent && exponent >= -maxExponent
		}
		return ok, nil
	})
	return ok
}

// place is where a path leads to or, if a larger expression made what is there,
// where that is.
func (p *PluginConfig) place(path []string) spot {
	for n := len(path); n > 0; n-- {
		if at, ok := p.places[pointer(path[:n])]; ok {
			if n < len(path) {
				at.name = at.value
			}
			return at
		}
	}
	return spot{name: p.header, value: p.header}
}

// pointer is a path as one text, like a JSON pointer.
func pointer(path []string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var b strings.Builder
	for _, name := range path {
		b.WriteString("/")
		b.WriteString(escape.Replace(name))
	}
	return b.String()
}

// settingName is a path for people.
func settingName(path []string) string {
	return strings.Join(append([]string{"config"}, path...), ".")
}

// changedSettings names the settings in which two configurations differ, for
// people, below config.
func changedSettings(before, after *PluginConfig) []string {
	changed := names(before.settings(), after.settings())
	if len(changed) == 0 {
		return whether((before == nil) != (after == nil))
	}
	return changed
}

// settings are the settings by their dotted names, as JSON.
func (p *PluginConfig) settings() map[string]string {
	all := make(map[string]string)
	if p != nil {
		flatten(p.values, "", all)
	}
	return all
}

// flatten gathers the settings of an object by their dotted names.
func flatten(object map[string]any, prefix string, into map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if inner, ok := object[name].(map[string]any); ok && len(inner) > 0 {
			flatten(inner, prefix+name+".", into)
			continue
		}
		text, _ := json.Marshal(object[name]) // it was made to be JSON
		into[prefix+name] = string(text)
	}
}
