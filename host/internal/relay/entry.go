package relay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/yosida95/uritemplate/v3"

	"github.com/plughost/plughost/shared/mcphttp"
	"github.com/plughost/plughost/shared/wire"
)

const (
	// maxTemplate is how many bytes a template of URIs may have, and
	// maxTemplateCommas how many commas: larger ones have regular expressions that
	// cannot be made.
	maxTemplate       = 4096
	maxTemplateCommas = 100
	// maxURI is how many bytes a URI may have that is one of a template: to find
	// out costs time.
	maxURI = 8192
)

// entry is one of what a service lists, which does not change.
type entry struct {
	service *Service
	own     string // what the service calls it: a name, a URI or a template of URIs
	raw     []byte // own, as the plugin wrote it
	name    string // what clients of several services call it
	object  []byte // as these clients see it: as the plugin wrote it, but for the name
	// params are the headers that repeat arguments of a tool.
	params []mcphttp.ParamHeader
	// matches reports whether a URI is one of a template.
	matches func(uri string) bool
}

// newEntry makes an entry of an object in an answer. One that clients could not
// make sense of is left out, since many of them would give up the whole list.
func newEntry(service *Service, k kind, answer *wire.Message, object wire.Span) (*entry, error) {
	picked, err := answer.Pick(object, listings[k].key, "name", "inputSchema", "outputSchema")
	if err != nil {
		return nil, err
	}
	raw := answer.Bytes(picked[0])
	own, ok := wire.Text(raw)
	if !ok || len(own) == 0 || !utf8.Valid(own) {
		return nil, fmt.Errorf("one of them has no %s", listings[k].key)
	}
	e := &entry{service: service, own: string(own), raw: bytes.Clone(raw), name: string(own)}
	if err := e.check(k, answer, picked); err != nil {
		return nil, fmt.Errorf("%q: %w", own, err)
	}
	if k == kindTools || k == kindPrompts {
		e.name = joinedName(service.name, e.own)
	}
	return e, e.show(answer, object, picked[0])
}

// check looks at what of an object every client looks at: name, input and output
// schema are picked.
func (e *entry) check(k kind, answer *wire.Message, picked []wire.Span) error {
	if _, ok := wire.Text(answer.Bytes(picked[1])); !ok {
		return errors.New("it has no name")
	}
	switch k {
	case kindTools:
		return e.checkTool(answer, picked[2], picked[3])
	case kindResources:
		if uri, err := url.Parse(e.own); err != nil || !uri.IsAbs() {
			return errors.New("its URI is none, or not absolute")
		}
	case kindTemplates:
		return e.checkTemplate()
	}
	return nil
}

func (e *entry) checkTemplate() error {
	if len(e.own) > maxTemplate || strings.Count(e.own, ",") > maxTemplateCommas {
		return errors.New("the template is too long")
	}
	template, err := uritemplate.New(e.own)
	if err != nil {
		return err
	}
	prefix, _, _ := strings.Cut(e.own, "{")
	pattern := sync.OnceValue(template.Regexp) // costs much, and few are asked for
	e.matches = func(uri string) bool {
		return len(uri) <= maxURI && strings.HasPrefix(uri, prefix) && pattern().MatchString(uri)
	}
	return nil
}

func (e *entry) checkTool(answer *wire.Message, input, output wire.Span) error {
	kind, err := answer.Find(input, "type")
	if err != nil {
		return err
	}
	if string(answer.Bytes(kind)) != `"object"` {
		return errors.New("its input schema is not one of an object")
	}
	if schema := answer.Bytes(output); output.Found() && schema[0] != '{' {
		return errors.New("its output schema is no object")
	}
	if schema := answer.Bytes(input); bytes.Contains(schema, []byte(`"x-mcp-header"`)) {
		e.params = mcphttp.ParamHeaders(json.RawMessage(schema))
	}
	return nil
}

// show makes the object what clients of several services see.
func (e *entry) show(answer *wire.Message, object, key wire.Span) error {
	if e.name == e.own {
		e.object = bytes.Clone(answer.Bytes(object))
		return nil
	}
	name, err := json.Marshal(e.name)
	if err != nil {
		return err
	}
	e.object = append(e.object, answer.Raw[object.Start:key.Start]...)
	e.object = append(e.object, name...)
	e.object = append(e.object, answer.Raw[key.End:object.End]...)
	return nil
}
