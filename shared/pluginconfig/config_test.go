package pluginconfig

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

type model struct {
	URL string `json:"base_url" jsonschema:"where the model is"`
	Key string `json:"api_key" plughost:"sensitive"`
}

type settings struct {
	Zone   string            `json:"zone" jsonschema:"where the clock is"`
	Level  string            `json:"level" plughost:"enum=low|high"`
	Rounds int               `json:"rounds" plughost:"minimum=1,maximum=9"`
	Wait   Duration          `json:"wait"`
	Token  string            `json:"token" plughost:"sensitive"`
	Model  *model            `json:"model,omitempty"`
	Models []model           `json:"models,omitempty"`
	ByName map[string]*model `json:"by_name,omitempty"`
	_      int
}

func (s *settings) Validate() error {
	if s.Zone == "nowhere" {
		return errors.Join(
			&FieldError{Path: []string{"zone"}, Err: errors.New("there is no such place")},
			errors.New("all of it is wrong"),
		)
	}
	return nil
}

func declared(t *testing.T, target any) *Config {
	t.Helper()
	c, err := New(target)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSchemaSaysWhatTagsAndDefaultsSay(t *testing.T) {
	c := declared(t, &settings{Zone: "UTC", Wait: Duration(time.Minute), Token: "a secret default"})
	if strings.Contains(string(c.Schema()), "a secret default") {
		t.Errorf("the schema tells a secret: %s", c.Schema())
	}
	var got struct {
		Required   []string `json:"required"`
		Additional any      `json:"additionalProperties"`
		Properties map[string]struct {
			Type        string   `json:"type"`
			Description string   `json:"description"`
			Default     any      `json:"default"`
			Enum        []string `json:"enum"`
			Minimum     float64  `json:"minimum"`
			Maximum     float64  `json:"maximum"`
			WriteOnly   bool     `json:"writeOnly"`
			Properties  map[string]struct {
				WriteOnly bool `json:"writeOnly"`
			} `json:"properties"`
			Items struct {
				Properties map[string]struct {
					WriteOnly bool `json:"writeOnly"`
				} `json:"properties"`
			} `json:"items"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(c.Schema(), &got); err != nil {
		t.Fatal(err)
	}
	p := got.Properties
	checks := map[string]bool{
		"only what has neither a default nor omitempty is required": reflect.DeepEqual(got.Required, []string{"level", "rounds"}),
		"unknown names are refused":                                 got.Additional == false,
		"a description":                                             p["zone"].Description == "where the clock is",
		"a default":                                                 p["zone"].Default == "UTC",
		"a default that is a duration":                              p["wait"].Default == "1m0s" && p["wait"].Type == "string",
		"an enumeration":                                            reflect.DeepEqual(p["level"].Enum, []string{"low", "high"}),
		"bounds":                                                    p["rounds"].Minimum == 1 && p["rounds"].Maximum == 9,
		"a secret":                                                  p["token"].WriteOnly && !p["zone"].WriteOnly,
		"a struct is an object, and never null":                     p["model"].Type == "object" && p["models"].Type == "array",
		"a secret in a struct":                                      p["model"].Properties["api_key"].WriteOnly,
		"a secret in a list":                                        p["models"].Items.Properties["api_key"].WriteOnly,
		"no unexported field":                                       len(p) == 8,
	}
	for what, ok := range checks {
		if !ok {
			t.Errorf("%s: not in %s", what, c.Schema())
		}
	}
}

func TestSetFillsInAndKeepsDefaults(t *testing.T) {
	s := settings{Zone: "UTC", Rounds: 3}
	faults := declared(t, &s).Set([]byte(`{"level":"high","wait":"1m30s","model":{"base_url":"u","api_key":"k"}}`))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	want := settings{Zone: "UTC", Rounds: 3, Level: "high", Wait: Duration(90 * time.Second), Model: &model{"u", "k"}}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got %+v, want %+v", s, want)
	}
}

func TestSetSaysWhatIsWrongAndWhere(t *testing.T) {
	tests := []struct{ name, config, want string }{
		{"a wrong type", `{"model":{"base_url":5}}`, "config.model.base_url: a string is wanted, not a JSON number"},
		{"an unknown name", `{"zoen":"UTC"}`, `config: json: unknown field "zoen"`},
		{"not JSON", `{"zone"`, "config: "},
		{"two objects", `{} {}`, "config: there is more than one JSON object"},
		{"no span of time", `{"wait":"soon"}`, "a span of time with units is wanted"},
		{"what Validate finds", `{"zone":"nowhere"}`, "config.zone: there is no such place; config: all of it is wrong"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var texts []string
			for _, fault := range declared(t, &settings{}).Set([]byte(test.config)) {
				texts = append(texts, fault.Error())
			}
			if got := strings.Join(texts, "; "); !strings.Contains(got, test.want) || got == "" {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestSetNeverQuotesAValue(t *testing.T) {
	const secret = "hunter2"
	for _, config := range []string{`{"rounds":"hunter2"}`, `{"wait":"hunter2"}`, `{"token":{"hunter2":1}}`, `{"model":"hunter2"}`} {
		for _, fault := range declared(t, &settings{}).Set([]byte(config)) {
			if strings.Contains(fault.Error(), secret) {
				t.Errorf("%s: the fault tells the value: %v", config, fault)
			}
		}
	}
}

func TestWhatCannotBeDeclared(t *testing.T) {
	tests := []struct {
		name   string
		target any
		want   string
	}{
		{"a struct itself", settings{}, "a pointer to a struct"},
		{"a nil pointer", (*settings)(nil), "a pointer to a struct"},
		{"a plain duration", &struct{ Wait time.Duration }{}, "field Wait: a time.Duration is a mere number"},
		{"a function", &struct{ Do func() }{}, "unsupported"},
		{"a misspelt tag", &struct {
			A string `plughost:"sensitiv"`
		}{}, `field A: the tag plughost does not know "sensitiv"`},
		{"a bound that is no number", &struct {
			A int `plughost:"minimum=low"`
		}{}, "field A: "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := New(test.target); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}
