// The conformance plugin is an MCP server that has what the official
// conformance suite looks for, under the names that the suite gives it. It shows
// that nothing is lost between the suite and a plugin.
package main

import (
	"context"
	"encoding/base64"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/shared/mcpplugin"
)

func main() {
	server := mcp.NewServer(&mcp.Implementation{Name: "conformance", Version: "1"}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{Logging: &mcp.LoggingCapabilities{}},
		CompletionHandler: func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{"paris", "park"}, Total: 2}}, nil
		},
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	addContent(server)
	addTalk(server)
	addQuestions(server)
	addResources(server)
	addPrompts(server)
	mcpplugin.Serve(server)
}

// anything is the schema of a tool that takes no particular arguments.
const anything = `{"type":"object"}`

func addTool(server *mcp.Server, name, schema string, handler mcp.ToolHandler) {
	server.AddTool(&mcp.Tool{Name: name, Description: "What the suite calls " + name, InputSchema: json.RawMessage(schema)}, handler)
}

func result(content ...mcp.Content) *mcp.CallToolResult { return &mcp.CallToolResult{Content: content} }

func text(s string) *mcp.TextContent { return &mcp.TextContent{Text: s} }

// argument returns a string among the arguments of a call.
func argument(req *mcp.CallToolRequest, name string) string {
	var arguments map[string]any
	_ = json.Unmarshal(req.Params.Arguments, &arguments)
	s, _ := arguments[name].(string)
	return s
}

// pixel is a PNG of one pixel, and silence a WAV without samples.
var (
	pixel   = decoded("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
	silence = decoded("UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=")
)

func decoded(s string) []byte {
	data, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return data
}
