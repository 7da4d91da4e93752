package main

import (
	"bufio"
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const form = `{"type":"object","required":["name","age"],"properties":{
	"age":{"type":"integer","minimum":18,"maximum":99},
	"name":{"type":"string","title":"Your name","description":"as on the bell","minLength":2},
	"mail":{"type":"string","format":"email"},
	"news":{"type":"boolean","default":false},
	"size":{"type":"string","enum":["s","l"],"enumNames":["Small","Large"],"default":"s"},
	"pay":{"type":"string","oneOf":[{"const":"c","title":"by Card"},{"const":"b","title":"by Bill"}]},
	"tags":{"type":"array","items":{"type":"string","enum":["a","b","c"]},"minItems":1}
}}`

// What the person types is what the tool gets, in the types that it asked for.
func TestFormIsFilledIn(t *testing.T) {
	tests := []struct{ name, typed, action, content string }{
		{
			"everything", "Ada\n20\na@b.example\nyes\nby bill\nLarge\na, c\ny\n", "accept",
			`{"age":20,"mail":"a@b.example","name":"Ada","news":true,"pay":"b","size":"l","tags":["a","c"]}`,
		},
		{"defaults, and nothing else", "Ada\n20\n\n\n\n\n\nyes\n", "accept", `{"age":20,"name":"Ada","news":false,"size":"s"}`},
		{
			"what cannot be is asked again", "\nA\nAda\nold\n17\n18.5\n18\n\nperhaps\nn\nx\nc\nxl\ns\nd\nb\nwhat?\n\nY\n", "accept",
			`{"age":18,"name":"Ada","news":false,"pay":"c","size":"s","tags":["b"]}`,
		},
		{"declined", "Ada\n20\n\n\n\n\n\nn\n", "decline", "null"},
		{"cancelled", "Ada\n20\n\n\n\n\n\ncancel\n", "cancel", "null"},
		{"the input ends in the middle", "Ada\n2", "cancel", "null"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var schema any
			if err := json.Unmarshal([]byte(form), &schema); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			p := &person{in: bufio.NewReader(strings.NewReader(test.typed)), out: &out}
			result := p.answer(&mcp.ElicitParams{Message: "Who \x1b[31mare you?", RequestedSchema: schema}, askToSend)
			content, err := json.Marshal(result.Content)
			if err != nil {
				t.Fatal(err)
			}
			if result.Action != test.action || string(content) != test.content {
				t.Errorf("the tool gets %s %s, want %s %s", result.Action, content, test.action, test.content)
			}
			for _, want := range []string{"The tool asks: Who ", "  Your name (as on the bell; text; required): ", "  age (integer from 18 to 99; required): "} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not shown:\n%s", want, out.String())
				}
			}
			if strings.Contains(out.String(), "\x1b") {
				t.Errorf("the tool can steer the terminal: %q", out.String())
			}
		})
	}
}
