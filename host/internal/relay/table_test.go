package relay

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/shared/wire"
)

func newTestService(name string) *Service {
	return NewService(name, config.Tools{Allow: []string{"*"}}, hclog.NewNullLogger())
}

// listed makes what a service has of objects in a list.
func listed(t testing.TB, s *Service, k kind, objects ...string) features {
	t.Helper()
	var f features
	answer, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":[%s]}`, strings.Join(objects, ",")))
	if err != nil {
		t.Fatal(err)
	}
	for object := range answer.Elements(answer.Result) {
		e, err := newEntry(s, k, &answer, object)
		if err != nil {
			t.Fatal(err)
		}
		f.lists[k] = append(f.lists[k], e)
	}
	return f
}

// reaches are grants of all that some services have.
type reaches string

func (r reaches) Restricted() bool            { return true }
func (r reaches) Service(service string) bool { return strings.Contains(string(r), service) }
func (r reaches) Reaches(service string) bool { return r.Service(service) }
func (r reaches) Tool(service, _ string) bool { return r.Service(service) }

func objects(entries []*entry) (all []string) {
	for _, e := range entries {
		all = append(all, string(e.object))
	}
	return all
}

func TestURIOfSeveralServicesIsTheFirstReachableOnes(t *testing.T) {
	a, b, c := newTestService("a"), newTestService("b"), newTestService("c")
	resource := func(uri, of string) string { return fmt.Sprintf(`{"uri":%q,"name":%q}`, uri, of) }
	template := func(uri, of string) string { return fmt.Sprintf(`{"uriTemplate":%q,"name":%q}`, uri, of) }
	has := map[*Service]features{
		a: listed(t, a, kindTemplates, template("x://{any}", "a")),
		b: listed(t, b, kindResources, resource("x://same", "b")),
		c: listed(t, c, kindResources, resource("x://same", "c"), resource("x://c", "c")),
	}
	inOrder := has[c]
	inOrder.lists[kindTemplates] = listed(t, c, kindTemplates, template("x://{+path}", "c")).lists[kindTemplates]
	has[c] = inOrder
	for _, test := range []struct {
		order []*Service
		who   reaches
		uri   string
		want  *Service
	}{
		{[]*Service{a, b, c}, "abc", "x://same", b},
		{[]*Service{c, b, a}, "abc", "x://same", c},
		{[]*Service{a, b, c}, "ac", "x://same", c},
		{[]*Service{a, b, c}, "a", "x://same", a}, // by its template
		{[]*Service{a, b, c}, "abc", "x://c", c},
		{[]*Service{a, b, c}, "abc", "x://other", a},
		{[]*Service{c, b, a}, "abc", "x://other", c},
		{[]*Service{a, b, c}, "abc", "x://of/c", c},
		{[]*Service{a, b, c}, "ab", "x://of/c", nil},
		{[]*Service{a, b, c}, "abc", "y://c", nil},
		{[]*Service{a, b, c}, "abc", "x:/", nil},
		{[]*Service{a, b, c}, "abc", "x://" + strings.Repeat("u", maxURI-4), a},
		{[]*Service{a, b, c}, "abc", "x://" + strings.Repeat("u", maxURI-3), nil},
	} {
		var got *Service
		if e := newTable(test.order, has).resource(test.who, test.uri); e != nil {
			got = e.service
		}
		if got != test.want {
			t.Errorf("%s is, for one who reaches %s, %v, want %v", test.uri, test.who, got, test.want)
		}
	}
	shown := objects(newTable([]*Service{c, b, a}, has).visible(reaches("abc"), kindResources))
	if want := []string{resource("x://c", "c"), resource("x://same", "c")}; !slices.Equal(shown, want) {
		t.Errorf("the list is %s, want %s", shown, want)
	}
}

func TestDifferencesAreWhatOneSees(t *testing.T) {
	a, b := newTestService("a"), newTestService("b")
	tool := func(name, title string) string {
		return fmt.Sprintf(`{"name":%q,"title":%q,"inputSchema":{"type":"object"}}`, name, title)
	}
	services := []*Service{a, b}
	tools := func(ofA, ofB []string) *table {
		return newTable(services, map[*Service]features{a: listed(t, a, kindTools, ofA...), b: listed(t, b, kindTools, ofB...)})
	}
	resources := newTable(services, map[*Service]features{b: listed(t, b, kindResources, `{"uri":"x://b","name":"b"}`)})
	templates := newTable(services, map[*Service]features{b: listed(t, b, kindTemplates, `{"uriTemplate":"x://{b}","name":"b"}`)})
	one, other := []string{tool("t", "1")}, []string{tool("t", "2")}
	for _, test := range []struct {
		name          string
		before, after *table
		then, now     reaches
		want          []string
	}{
		{"the same", tools(one, one), tools(one, one), "ab", "ab", nil},
		{"another order", tools([]string{tool("t", ""), tool("u", "")}, nil), tools([]string{tool("u", ""), tool("t", "")}, nil), "ab", "ab", nil},
		{"another title", tools(one, one), tools(one, other), "ab", "ab", []string{"tools"}},
		{"of a service that is not seen", tools(one, one), tools(one, other), "a", "a", nil},
		{"one more", tools(one, nil), tools(one, one), "ab", "ab", []string{"tools"}},
		{"other grants", tools(one, one), tools(one, one), "ab", "a", []string{"tools"}},
		{"resources and templates are one", resources, templates, "ab", "ab", []string{"resources"}},
	} {
		if got := differing(test.before, test.then, test.after, test.now); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// The regular expressions of some templates cannot be made, at the cost of the host.
func TestTemplatesAreBounded(t *testing.T) {
	service := newTestService("s")
	for name, test := range map[string]struct {
		template string
		shown    bool
	}{
		"as long as may be":  {"x://" + strings.Repeat("{a}", (maxTemplate-4)/3), true},
		"too long":           {"x://" + strings.Repeat("{a}", maxTemplate), false},
		"as many as may be":  {"x://{a" + strings.Repeat(",a", maxTemplateCommas) + "}", true},
		"too many variables": {"x://{a" + strings.Repeat(",a", 1001) + "}", false},
	} {
		answer, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":{"name":"t","uriTemplate":%q}}`, test.template))
		if err != nil {
			t.Fatal(err)
		}
		e, err := newEntry(service, kindTemplates, &answer, answer.Result)
		if (err == nil) != test.shown {
			t.Errorf("%s: error %v", name, err)
		}
		if err == nil && !e.matches("x://a") {
			t.Errorf("%s: it does not match", name)
		}
	}
}

// FuzzEntry has plugins list anything: what is shown of it is JSON, has the name by
// which it can be called, and says nothing else than the plugin did.
func FuzzEntry(f *testing.F) {
	f.Add(uint8(kindTools), []byte(`{"name":"\u0061","title":"x","inputSchema":{"type":"object","properties":{"a":{"x-mcp-header":"A"}}}}`))
	f.Add(uint8(kindPrompts), []byte(`{"arguments":[],"name":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}`))
	f.Add(uint8(kindResources), []byte(`{"uri":"a:b","name":"","size":1.0}`))
	f.Add(uint8(kindTemplates), []byte(`{"uriTemplate":"a://{+b}{?c*}","name":"b"}`))
	service := newTestService("s")
	f.Fuzz(func(t *testing.T, of uint8, object []byte) {
		k := kind(of) % kindCount
		answer, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":%s}`, object))
		if err != nil {
			return
		}
		e, err := newEntry(service, k, &answer, answer.Result)
		if err != nil {
			return
		}
		var before, after map[string]json.RawMessage
		if err := json.Unmarshal(answer.Bytes(answer.Result), &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(e.object, &after); err != nil {
			t.Fatalf("%s is shown: %v", e.object, err)
		}
		var name string
		if err := json.Unmarshal(after[listings[k].key], &name); err != nil || name != e.name {
			t.Fatalf("%q is named %q: %v", e.name, name, err)
		}
		before[listings[k].key] = after[listings[k].key]
		for member, value := range before {
			if string(after[member]) != string(value) {
				t.Fatalf("%q is %s, and was %s", member, after[member], value)
			}
		}
		if e.matches != nil {
			e.matches("a://b/c?d=e")
		}
	})
}
