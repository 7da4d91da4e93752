package main

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestResultForAPerson(t *testing.T) {
	text := func(s string) mcp.Content { return &mcp.TextContent{Text: s} }
	tests := []struct {
		name   string
		result mcp.CallToolResult
		want   string
	}{
		{"nothing", mcp.CallToolResult{}, ""},
		{"text", mcp.CallToolResult{Content: []mcp.Content{text("one\ntwo"), text("three\n")}}, "one\ntwo\nthree\n"},
		{"text that would steer a terminal", mcp.CallToolResult{Content: []mcp.Content{text("\x1b[31mred\r\nline")}}, "\\x1b[31mred\nline\n"},
		{
			"images, sound and resources",
			mcp.CallToolResult{Content: []mcp.Content{
				&mcp.ImageContent{MIMEType: "image/png", Data: make([]byte, 3)},
				&mcp.AudioContent{MIMEType: "audio/wav", Data: make([]byte, 4)},
				&mcp.ResourceLink{Name: "zones", URI: "clock://zones"},
				&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "a:b", Text: "inside"}},
				&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "a:c", MIMEType: "x/y", Blob: make([]byte, 5)}},
			}},
			"(image, image/png, 3 bytes: --json has it)\n(audio, audio/wav, 4 bytes: --json has it)\n(resource zones: clock://zones)\ninside\n(resource a:c, x/y, 5 bytes: --json has it)\n",
		},
		{
			"structured content that its text repeats",
			mcp.CallToolResult{Content: []mcp.Content{text(`{"a":1.0}`)}, StructuredContent: map[string]any{"a": 1.0}},
			"{\n  \"a\": 1\n}\n",
		},
		{
			"structured content beside text",
			mcp.CallToolResult{Content: []mcp.Content{text("sunny")}, StructuredContent: map[string]any{"a": "<b>"}},
			"sunny\n{\n  \"a\": \"<b>\"\n}\n",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var b strings.Builder
			if err := writeResult(&b, &test.result); err != nil || b.String() != test.want {
				t.Errorf("got %q, %v; want %q", b.String(), err, test.want)
			}
		})
	}
}

func TestArgumentsOfACall(t *testing.T) {
	tests := []struct {
		name   string
		args   []string
		stdin  string
		object string
		texts  map[string]string
		fault  string
	}{
		{"none", nil, "", "", nil, ""},
		{"an object", []string{`{"a":"b=c"}`}, "", `{"a":"b=c"}`, nil, ""},
		{"an object from standard input", []string{"-"}, `{"a":1}`, `{"a":1}`, nil, ""},
		{"pairs", []string{"a=1", "b=c=d", "e="}, "", "", map[string]string{"a": "1", "b": "c=d", "e": ""}, ""},
		{"a value that is an object", []string{`a={"b":1}`}, "", "", map[string]string{"a": `{"b":1}`}, ""},
		{"a list", []string{"[1]"}, "", "", nil, "JSON object"},
		{"null", []string{"null"}, "", "", nil, "it is null"},
		{"a word", []string{"a"}, "", "", nil, "NAME=VALUE"},
		{"a word among pairs", []string{"a=1", "b"}, "", "", nil, `"b" is not NAME=VALUE`},
		{"a name twice", []string{"a=1", "a=2"}, "", "", nil, "a is given twice"},
		{"no name", []string{"=1", "a=2"}, "", "", nil, "NAME=VALUE"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := readArguments(test.args, strings.NewReader(test.stdin))
			if test.fault != "" {
				if err == nil || !strings.Contains(err.Error(), test.fault) {
					t.Errorf("the error is %v, want %q in it", err, test.fault)
				}
				return
			}
			if err != nil || string(got.object) != test.object || len(got.texts) != len(test.texts) {
				t.Fatalf("got %s %v, %v", got.object, got.texts, err)
			}
			for name, want := range test.texts {
				if got.texts[name] != want {
					t.Errorf("%s is %q, want %q", name, got.texts[name], want)
				}
			}
		})
	}
}
