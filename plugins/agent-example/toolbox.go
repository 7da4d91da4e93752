package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/sashabaranov/go-openai"

	"github.com/plughost/plughost/shared/agentplugin"
)

// maxToolResult bounds what of a tool's result the model is told, in bytes.
const maxToolResult = 64 << 10

// functionName is what the API takes for the name of a tool.
var functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// toolbox is the tools that the model may call.
type toolbox struct {
	session *mcp.ClientSession // nil if there are none
	tools   map[string]*mcp.Tool
	offered []openai.Tool
}

// openToolbox finds the tools that were granted. An agent that the host gave
// none answers without.
func openToolbox(ctx context.Context, tools func(context.Context) (*mcp.ClientSession, error)) (*toolbox, error) {
	b := &toolbox{tools: make(map[string]*mcp.Tool)}
	session, err := tools(ctx)
	switch {
	case errors.Is(err, agentplugin.ErrNoTools), errors.Is(err, agentplugin.ErrNoHost):
		return b, nil
	case err != nil:
		return nil, fmt.Errorf("I cannot reach my tools: %w", err)
	}
	b.session = session
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return nil, fmt.Errorf("I cannot list my tools: %w", err)
		}
		b.add(tool)
	}
	return b, nil
}

// add offers a tool, unless its name is none for a model's API.
func (b *toolbox) add(tool *mcp.Tool) {
	if !functionName.MatchString(tool.Name) {
		return
	}
	b.tools[tool.Name] = tool
	b.offered = append(b.offered, openai.Tool{
		Type: openai.ToolTypeFunction,
		Function: &openai.FunctionDefinition{
			Name: tool.Name, Description: tool.Description, Parameters: tool.InputSchema,
		},
	})
}

// call calls a tool and returns what to tell the model.
func (b *toolbox) call(ctx context.Context, function openai.FunctionCall) string {
	if b.tools[function.Name] == nil {
		return fmt.Sprintf("error: there is no tool %q", function.Name)
	}
	arguments := map[string]any{}
	if text := strings.TrimSpace(function.Arguments); text != "" {
		if err := json.Unmarshal([]byte(text), &arguments); err != nil {
			return fmt.Sprintf("error: the arguments are not a JSON object: %v", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	result, err := b.session.CallTool(ctx, &mcp.CallToolParams{Name: function.Name, Arguments: arguments})
	if err != nil {
		return fmt.Sprintf("error: %v", err)
	}
	return told(result)
}

// told is a tool's result as the model is told it.
func told(result *mcp.CallToolResult) string {
	text := textOf(result)
	if text == "" && result.StructuredContent != nil {
		if data, err := json.Marshal(result.StructuredContent); err == nil {
			text = string(data)
		}
	}
	if len(text) > maxToolResult {
		text = strings.ToValidUTF8(text[:maxToolResult], "") + "... (cut off)"
	}
	if result.IsError {
		text = "error: " + text
	}
	return text
}
