package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fitSchema is what a plugin might declare.
const fitSchema = `{
	"type": "object",
	"properties": {
		"zone":    {"type": "string", "description": "where the clock is", "pattern": "^[A-Za-z_/]+$"},
		"level":   {"type": "string", "enum": ["low", "high"]},
		"token":   {"type": "string", "enum": ["hunter2", "hunter3"], "writeOnly": true},
		"rounds":  {"type": "integer", "minimum": 1, "maximum": 9},
		"share":   {"type": "number"},
		"loud":    {"type": "boolean"},
		"either":  {"anyOf": [{"type": "string"}, {"type": "boolean"}]},
		"names":   {"type": "array", "items": {"type": "string"}},
		"model":   {"$ref": "#/$defs/model"},
		"models":  {"type": "array", "items": {"$ref": "#/$defs/model"}}
	},
	"required": ["zone"],
	"additionalProperties": false,
	"$defs": {"model": {
		"type": "object",
		"properties": {"base_url": {"type": "string"}, "api_key": {"type": "string", "writeOnly": true}},
		"required": ["base_url"],
		"additionalProperties": false
	}}
}`

// fitting loads a service whose config block has these lines, and fits it.
func fitting(t *testing.T, lines, schema string) (string, *Diagnostics) {
	t.Helper()
	conf, diags := loadText(t, "services.hcl", written("@ config {|"+lines+"| }|}"))
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	service := conf.Services[0]
	text, _ := service.FitConfig([]byte(schema))
	return string(text), conf.CheckPlugins(map[Ref][]byte{service.Ref(): []byte(schema)}, nil)
}

func TestWhatFitsBecomesJSON(t *testing.T) {
	tests := []struct{ name, lines, want string }{
		{"attributes", `  zone="UTC"|  rounds=3|  loud=true`, `{"loud":true,"rounds":3,"zone":"UTC"}`},
		{"a block is an object", `  zone="UTC"|  model {|   base_url="u"|  }`, `{"model":{"base_url":"u"},"zone":"UTC"}`},
		{"and so is a map", `  zone="UTC"|  model={base_url="u"}`, `{"model":{"base_url":"u"},"zone":"UTC"}`},
		{"a list of objects", `  zone="UTC"|  models=[{base_url="u"},{base_url="v"}]`, `{"models":[{"base_url":"u"},{"base_url":"v"}],"zone":"UTC"}`},
		{"texts become what is wanted", `  zone="UTC"|  rounds="3"|  share="0.5"|  loud="true"`, `{"loud":true,"rounds":3,"share":0.5,"zone":"UTC"}`},
		{"numbers become texts", `  zone="UTC"|  names=[1,true]`, `{"names":["1","true"],"zone":"UTC"}`},
		{"null is absent", `  zone="UTC"|  rounds=null`, `{"zone":"UTC"}`},
		{"all digits stay", `  zone="UTC"|  share=9007199254740993.5`, `{"share":9007199254740993.5,"zone":"UTC"}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, diags := fitting(t, test.lines, fitSchema)
			if got != test.want || diags.HasErrors() {
				t.Errorf("got %s, want %s: %v", got, test.want, diags.Err())
			}
		})
	}
}

// The lines of a config block begin at line 4.
func TestWhatDoesNotFit(t *testing.T) {
	tests := []struct {
		name, lines string
		want        []finding
	}{
		{"an unknown setting", `  zoen="UTC"|  zone="UTC"`, []finding{at("4,3-7", "no setting config.zoen", `Did you mean "zone"?`)}},
		{"a missing one", `  rounds=1`, []finding{at("3,2-8", "config.zone is required", "where the clock is")}},
		{"a wrong type", `  zone=["UTC"]`, []finding{at("4,8-15", "config.zone: a string is required; this is a list")}},
		{"a number out of range", `  zone="UTC"|  rounds=10`, []finding{at("5,10-12", "config.rounds: at most 9")}},
		{"a number below range", `  zone="UTC"|  rounds=0`, []finding{at("5,10-11", "config.rounds: at least 1")}},
		{"no whole number", `  zone="UTC"|  rounds=1.5`, []finding{at("5,10-13", "a whole number is required")}},
		{"a word that is none of those", `  zone="UTC"|  level="hihg"`, []finding{at("5,9-15", `"low" or "high"`, `Did you mean "high"?`)}},
		{"a text of a wrong form", `  zone="U T C"`, []finding{at("4,8-15", "config.zone: a text is wanted that matches", "where the clock is")}},
		{"none of some forms", `  zone="UTC"|  either=[1]`, []finding{at("5,10-13", "config.either: it has none of the forms")}},
		{"in a block", `  zone="UTC"|  model {|   base_ur="u"|  }`, []finding{
			at("5,3-8", "config.model.base_url is required"), at("6,4-11", `no setting config.model.base_ur`, `"base_url"`),
		}},
		{"in a list", `  zone="UTC"|  models=[{base_url="u"},{base_url=[1]}]`, []finding{at("5,36-39", "config.models.1.base_url: a string")}},
		{"in a larger expression", `  zone="UTC"|  model=true ? {base_url=[1]} : null`, []finding{at("5,9-37", "config.model.base_url: a string")}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, diags := fitting(t, test.lines, fitSchema)
			if got != "" {
				t.Errorf("it fits: %s", got)
			}
			wantFindings(t, diags, test.want...)
		})
	}
}

func TestSettingsInTheJSONForm(t *testing.T) {
	load := func(config string) (*Config, *Diagnostics) {
		return loadText(t, "services.hcl.json", `{"service":{"mcp":{"a":{"command":["sh"],"config":`+config+`}}}}`)
	}
	conf, diags := load(`{"zone":"${upper(\"utc\")}","model":{"base_url":"u"},"rounds":3}`)
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	if got, err := conf.Services[0].FitConfig([]byte(fitSchema)); err != nil || string(got) != `{"model":{"base_url":"u"},"rounds":3,"zone":"UTC"}` {
		t.Errorf("got %s, %v", got, err)
	}
	conf, _ = load(`{"zone":"UTC","model":{"base_ur":"u"}}`)
	found := conf.CheckPlugins(map[Ref][]byte{conf.Services[0].Ref(): []byte(fitSchema)}, nil)
	wantFindings(t, found,
		at("1,73-88", "config.model.base_url is required"), at("1,74-83", "no setting config.model.base_ur"))
}

func TestASecretIsNotGuessedAt(t *testing.T) {
	_, diags := fitting(t, `  zone="UTC"|  token="hunter"`, fitSchema)
	if !diags.HasErrors() || strings.Contains(diags.Err().Error(), "Did you mean") {
		t.Errorf("got %v", diags.Err())
	}
}

func TestSettingsThatCannotBeRead(t *testing.T) {
	tests := []struct {
		name, lines string
		want        []finding
	}{
		{"a label", `  model "x" {|  }`, []finding{at("4,9-12", "have no labels")}},
		{"two blocks", `  model {|  }|  model {|  }`, []finding{at("6,3-8", "config.model is already set at", "model = [{ ... }, { ... }]")}},
		{"a block and an attribute", `  model=1|  model {|  }`, []finding{at("5,3-8", "already set")}},
		{"a key twice", `  model={a=1,a=2}`, []finding{at("4,14-15", "config.model.a is already set")}},
		{"an endless number", `  share=1e300*1e300*1e300*1e300*1e300`, []finding{at("4,9-38", "config.share: the number is too large")}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, diags := loadText(t, "services.hcl", written("@ config {|"+test.lines+"| }|}"))
			wantFindings(t, diags, test.want...)
		})
	}
}

func TestAPluginWithoutASchemaTakesNoConfiguration(t *testing.T) {
	_, diags := fitting(t, `  zone="UTC"`, "")
	wantFindings(t, diags, at("3,2-8", "declares no configuration"))
}

func TestAServiceWithoutAConfigBlock(t *testing.T) {
	conf, _ := loadText(t, "services.hcl", written("@}"))
	service := conf.Services[0]
	if got, err := service.FitConfig(nil); got != nil || err != nil {
		t.Errorf("without a schema: %s, %v", got, err)
	}
	if got, err := service.FitConfig([]byte(`{"type":"object"}`)); string(got) != "{}" || err != nil {
		t.Errorf("with nothing required: %s, %v", got, err)
	}
	wantFindings(t, conf.CheckPlugins(map[Ref][]byte{service.Ref(): []byte(fitSchema)}, nil), at("1,1-18", "needs a config block in which zone is set"))
}

// exponential is a short schema that is checked 2^n times.
func exponential(n int) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"d%d":{}}}`, n)
	return b.String()
}

func TestPropertiesMayHaveTheNamesOfKeywords(t *testing.T) {
	conf, _ := loadText(t, "services.hcl", written(`@ config {|  a="x"| }|}`))
	schema := `{"properties":{"$ref":{"type":"string"},"$dynamicRef":{},"a":{"$ref":"#/properties/$ref"}}}`
	if got, err := conf.Services[0].FitConfig([]byte(schema)); err != nil || string(got) != `{"a":"x"}` {
		t.Errorf("got %s, %v", got, err)
	}
}

// FuzzFitConfig has a plugin declare anything.
func FuzzFitConfig(f *testing.F) {
	for _, schema := range []string{
		fitSchema, exponential(20), `{}`, `true`, `[]`, `{"$ref":"#/$defs/a~1b","$defs":{"a/b":{}}}`,
		`{"properties":{"zone":{"minimum":1e400}}}`, `{"if":{"required":["a"]},"then":false}`, `{"patternProperties":{"^z":{"format":"date"}}}`,
	} {
		f.Add([]byte(schema))
	}
	path := filepath.Join(f.TempDir(), "services.hcl")
	if err := os.WriteFile(path, []byte(written(`@ config {|  zone="UTC"|  rounds=3|  model {|   base_url="u"|  }|  names=["a",1]| }|}`)), 0o600); err != nil {
		f.Fatal(err)
	}
	conf, diags := Load(path)
	if diags.HasErrors() {
		f.Fatal(diags.Err())
	}
	f.Fuzz(func(t *testing.T, schema []byte) {
		fitted, err := conf.Services[0].FitConfig(schema)
		if err == nil && len(schema) > 0 && !json.Valid(fitted) {
			t.Errorf("what fits is no JSON: %q", fitted)
		}
	})
}

func TestSchemasOfHostilePlugins(t *testing.T) {
	conf, _ := loadText(t, "services.hcl", written(`@ config {|  a=1| }|}`))
	for name, schema := range map[string]string{
		"not JSON":           `{`,
		"no schema":          `{"type":"nothing"}`,
		"huge number":        `{"properties":{"a":{"maximum":1e999999999}}}`,
		"tiny number":        `{"properties":{"a":{"minimum":1e-999999999}}}`,
		"a file":             `{"$ref":"file:///etc/passwd"}`,
		"a web page":         `{"$ref":"https://127.0.0.1:1/schema"}`,
		"a circle":           `{"$ref":"#"}`,
		"a bad pattern":      `{"properties":{"a":{"pattern":"("}}}`,
		"too large":          `{"title":"` + strings.Repeat("x", maxSchema) + `"}`,
		"a reference to air": `{"$ref":"#/$defs/none"}`,
		"a longer circle":    `{"$ref":"#/$defs/a","$defs":{"a":{"not":{"$ref":"#/$defs/b"}},"b":{"not":{"$ref":"#/$defs/a"}}}}`,
		"a recursive form":   `{"properties":{"a":{"$ref":"#"}}}`,
		"a dynamic one":      `{"$dynamicRef":"#x"}`,
		"an exponential one": exponential(40),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := conf.Services[0].FitConfig([]byte(schema))
			if misfit := (*FitError)(nil); err == nil || errors.As(err, &misfit) {
				t.Errorf("error %v, want one about the schema", err)
			}
		})
	}
}

func TestNoFaultTellsASecret(t *testing.T) {
	conf, diags := loadText(t, "services.hcl", written(`@ config {|  zone="UTC"|  level=sensitive("hunter2")| }|}`))
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	service := conf.Services[0]
	_, fits := service.FitConfig([]byte(fitSchema))
	found := conf.CheckPlugins(map[Ref][]byte{service.Ref(): []byte(fitSchema)}, nil)
	wantFindings(t, found, at("5,9-29", `config.level can be "low" or "high"`))
	for what, text := range map[string]string{
		"an error":             fits.Error(),
		"a diagnostic":         printed(t, found, false, 80),
		"what the plugin says": service.ConfigFault([]string{"level"}, "hunter2 is wrong").Error(),
	} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("%s tells a secret: %s", what, text)
		}
	}
	if got := string(service.Settings()); !strings.Contains(got, "hunter2") {
		t.Errorf("the plugin does not get it: %s", got)
	}
}

func TestSettingsAreNoValuesForOthers(t *testing.T) {
	_, diags := loadText(t, "services.hcl", written(`@ config {|  zone="UTC"| }|}|service "mcp" "b" {| command=["sh"]| env={A=service.mcp.a.config.zone}|}`))
	wantFindings(t, diags, at("9,9-29", "the plugin's own", "locals"))
}
