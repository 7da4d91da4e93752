package mcphttp_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/plughost/plughost/shared/mcphttp"
)

func TestHeadersStandForAnyText(t *testing.T) {
	for _, text := range []string{"plain", "two words", "", " leading", "trailing ", "é", "a\nb", "\x00", "=?base64?YQ==?=", "=?base64?", "?="} {
		header := mcphttp.EncodeHeader(text)
		if strings.ContainsFunc(header, func(r rune) bool { return r < ' ' || r > '~' }) || strings.TrimSpace(header) != header {
			t.Errorf("%q becomes %q, which is no header", text, header)
		}
		if got, ok := mcphttp.DecodeHeader(header); !ok || got != text {
			t.Errorf("%q comes back as %q, %v", text, got, ok)
		}
	}
	if got, ok := mcphttp.DecodeHeader("=?base64?!?="); ok {
		t.Errorf("what is not well encoded is %q", got)
	}
}

func TestArgumentsThatAreInHeaders(t *testing.T) {
	var schema any
	err := json.Unmarshal([]byte(`{"properties":{"b":{"x-mcp-header":"B"},"a":{"properties":{"c":{"x-mcp-header":"C"},"d":{}}},"e":{"x-mcp-header":1}}}`), &schema)
	if err != nil {
		t.Fatal(err)
	}
	want := []mcphttp.ParamHeader{{Path: []string{"a", "c"}, Name: "Mcp-Param-C"}, {Path: []string{"b"}, Name: "Mcp-Param-B"}}
	if got := mcphttp.ParamHeaders(schema); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, schema := range []any{nil, "x-mcp-header", []int{1}, map[string]any{"properties": "x-mcp-header"}} {
		if got := mcphttp.ParamHeaders(schema); len(got) > 0 {
			t.Errorf("of %v it is %v", schema, got)
		}
	}
}
