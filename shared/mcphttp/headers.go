package mcphttp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// From 2026-07-28 on the headers of a request say what is in it, for whoever
// looks at headers only.

// paramPrefix is before the names of headers that repeat arguments.
const paramPrefix = "Mcp-Param-"

// ParamHeader says that an argument of a tool is also in a header.
type ParamHeader struct {
	Path []string // to the argument
	Name string   // of the header
}

// ParamHeaders finds what a tool's input schema wants to have in headers.
func ParamHeaders(schema any) []ParamHeader {
	encoded, err := json.Marshal(schema)
	if err != nil || !bytes.Contains(encoded, []byte(`"x-mcp-header"`)) {
		return nil
	}
	var root property
	if json.Unmarshal(encoded, &root) != nil {
		return nil
	}
	return root.headers(nil)
}

// property is what of a schema concerns headers.
type property struct {
	Header     any                 `json:"x-mcp-header"`
	Properties map[string]property `json:"properties"`
}

func (p property) headers(path []string) (found []ParamHeader) {
	if name, ok := p.Header.(string); ok && name != "" && len(path) > 0 {
		found = append(found, ParamHeader{path, paramPrefix + name})
	}
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		found = append(found, p.Properties[name].headers(append(slices.Clip(path), name))...)
	}
	return found
}

// What no header can hold is encoded.
const beforeEncoded, afterEncoded = "=?base64?", "?="

// EncodeHeader returns the value of a header that stands for a text.
func EncodeHeader(text string) string {
	hidden := func(r rune) bool { return r < ' ' || r > '~' }
	if !strings.ContainsFunc(text, hidden) && strings.TrimSpace(text) == text && !strings.HasPrefix(text, beforeEncoded) {
		return text
	}
	return beforeEncoded + base64.StdEncoding.EncodeToString([]byte(text)) + afterEncoded
}

// DecodeHeader returns the text that a header stands for. It reports false if
// it is not well encoded.
func DecodeHeader(value string) (string, bool) {
	encoded, ok := strings.CutPrefix(value, beforeEncoded)
	if !ok {
		return value, true
	}
	if encoded, ok = strings.CutSuffix(encoded, afterEncoded); !ok {
		return value, true
	}
	text, err := base64.StdEncoding.DecodeString(encoded)
	return string(text), err == nil
}
