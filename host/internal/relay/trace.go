package relay

import (
	"encoding/json"
	"net/http"
	"regexp"

	"github.com/plughost/plughost/shared/wire"
)

// traceParent is a header of the W3C's Trace Context, in the version that there
// is and those to come.
var traceParent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?$`)

// maxTraceState is how many bytes of the other headers of a trace are passed on.
const maxTraceState = 8192

// traced is a request with the trace that its headers say it belongs to in its
// _meta, as MCP has it. What the client says there itself goes before.
func traced(m wire.Message, header http.Header) wire.Message {
	parent := header.Get("Traceparent")
	if m.Kind != wire.Request || parent == "" || !traceParent.MatchString(parent) {
		return m
	}
	if said, err := m.Param("_meta", "traceparent"); err != nil || said.Found() {
		return m
	}
	members := map[string]string{"traceparent": parent}
	for key, name := range map[string]string{"tracestate": "Tracestate", "baggage": "Baggage"} {
		said, err := m.Param("_meta", key)
		if value := header.Get(name); err == nil && !said.Found() && value != "" && len(value) <= maxTraceState {
			members[key] = value
		}
	}
	with, err := WithMeta(&m, members)
	if err != nil {
		return m // its parameters are no object, or its _meta is none
	}
	return with
}

// WithMeta is a message with some more members in its _meta. The error says that
// its parameters are no object, or its _meta is none.
func WithMeta[T any](m *wire.Message, members map[string]T) (wire.Message, error) {
	encoded, err := json.Marshal(members)
	if err != nil {
		return wire.Message{}, err
	}
	return wire.Scan(withMeta(m, encoded))
}

// withMeta is a message with the members of an object in its _meta.
func withMeta(m *wire.Message, object []byte) []byte {
	meta, _ := m.Param("_meta")
	switch {
	case meta.Found():
		return m.Replace(nil, inside(meta), joined(m, meta, object[1:len(object)-1]))
	case m.Params.Found():
		return m.Replace(nil, inside(m.Params), joined(m, m.Params, append([]byte(`"_meta":`), object...)))
	default:
		end := len(m.Raw) - 1
		for m.Raw[end] != '}' {
			end--
		}
		return m.Replace(nil, wire.Span{Start: end, End: end}, append(append([]byte(`,"params":{"_meta":`), object...), '}'))
	}
}

// inside is the place right after the bracket that opens an object.
func inside(object wire.Span) wire.Span {
	return wire.Span{Start: object.Start + 1, End: object.Start + 1}
}

// joined is what is put before the members that an object has.
func joined(m *wire.Message, object wire.Span, members []byte) []byte {
	if isEmpty(m.Bytes(object)) {
		return members
	}
	return append(members, ',')
}

// isEmpty reports whether an object has no members.
func isEmpty(object []byte) bool {
	for _, c := range object[1:] {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == '}'
		}
	}
	return false
}
