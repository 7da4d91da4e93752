package main

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// schema202012 has the keywords that must come through as they are.
const schema202012 = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
	"properties": {
		"name": {"type": "string"},
		"address": {"$ref": "#/$defs/address"},
		"contactMethod": {"type": "string", "enum": ["phone", "email"]},
		"phone": {"type": "string"},
		"email": {"type": "string"}
	},
	"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
	"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
	"then": {"required": ["phone"]},
	"else": {"required": ["email"]},
	"additionalProperties": false
}`

// addContent adds the tools that return one thing, whatever is asked.
func addContent(server *mcp.Server) {
	image := &mcp.ImageContent{Data: pixel, MIMEType: "image/png"}
	embedded := func(uri, mimeType, content string) mcp.Content {
		return &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: uri, MIMEType: mimeType, Text: content}}
	}
	for name, content := range map[string][]mcp.Content{
		"test_simple_text":       {text("This is a simple text response for testing.")},
		"test_image_content":     {image},
		"test_audio_content":     {&mcp.AudioContent{Data: silence, MIMEType: "audio/wav"}},
		"test_embedded_resource": {embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")},
		"test_multiple_content_types": {
			text("Multiple content types test:"), image,
			embedded("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`),
		},
		"test_streaming_elicitation": {text("no request is in the stream")},
	} {
		addTool(server, name, anything, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return result(content...), nil
		})
	}
	addTool(server, "test_error_handling", anything, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		wrong := &mcp.CallToolResult{}
		wrong.SetError(errors.New("This tool intentionally returns an error for testing"))
		return wrong, nil
	})
	echo := func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return result(text(string(req.Params.Arguments))), nil
	}
	addTool(server, "json_schema_2020_12_tool", schema202012, echo)
	addTool(server, "test_x_mcp_header",
		`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"level":{"type":"integer"}}}`, echo)
}

// addResources adds what can be read.
func addResources(server *mcp.Server) {
	for _, r := range []struct {
		name    string
		content mcp.ResourceContents
	}{
		{"static-text", mcp.ResourceContents{MIMEType: "text/plain", Text: "This is the content of the static text resource."}},
		{"static-binary", mcp.ResourceContents{MIMEType: "image/png", Blob: pixel}},
		{"watched-resource", mcp.ResourceContents{MIMEType: "text/plain", Text: "watched"}},
	} {
		content := r.content
		content.URI = "test://" + r.name
		server.AddResource(&mcp.Resource{URI: content.URI, Name: r.name, Description: "What the suite reads as " + r.name, MIMEType: content.MIMEType},
			func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{&content}}, nil
			})
	}
	server.AddResourceTemplate(
		&mcp.ResourceTemplate{URITemplate: "test://template/{id}/data", Name: "template", Description: "Data by id", MIMEType: "application/json"},
		readTemplate)
}

// addPrompts adds the prompts but the one that asks back.
func addPrompts(server *mcp.Server) {
	add := func(name string, arguments []string, messages func(map[string]string) []mcp.Content) {
		prompt := &mcp.Prompt{Name: name, Description: "What the suite gets as " + name}
		for _, argument := range arguments {
			prompt.Arguments = append(prompt.Arguments, &mcp.PromptArgument{Name: argument, Description: "An argument", Required: true})
		}
		server.AddPrompt(prompt, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return prompted(messages(req.Params.Arguments)...), nil
		})
	}
	add("test_simple_prompt", nil, func(map[string]string) []mcp.Content {
		return []mcp.Content{text("This is a simple prompt for testing.")}
	})
	add("test_prompt_with_arguments", []string{"arg1", "arg2"}, func(a map[string]string) []mcp.Content {
		return []mcp.Content{text("Prompt with arguments: arg1='" + a["arg1"] + "', arg2='" + a["arg2"] + "'")}
	})
	add("test_prompt_with_embedded_resource", []string{"resourceUri"}, func(a map[string]string) []mcp.Content {
		return []mcp.Content{
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: a["resourceUri"], MIMEType: "text/plain", Text: "Embedded resource content for testing."}},
			text("Please process the embedded resource above."),
		}
	})
	add("test_prompt_with_image", nil, func(map[string]string) []mcp.Content {
		return []mcp.Content{&mcp.ImageContent{Data: pixel, MIMEType: "image/png"}, text("Please analyze the image above.")}
	})
}

func prompted(contents ...mcp.Content) *mcp.GetPromptResult {
	prompt := &mcp.GetPromptResult{}
	for _, content := range contents {
		prompt.Messages = append(prompt.Messages, &mcp.PromptMessage{Role: "user", Content: content})
	}
	return prompt
}
