package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// pause is what the suite wants between two messages.
const pause = 50 * time.Millisecond

// addTalk adds the tools that send something before they answer.
func addTalk(server *mcp.Server) {
	addTool(server, "test_tool_with_logging", anything, logs("Tool execution started", "Tool processing data", "Tool execution completed"))
	addTool(server, "test_logging_tool", anything, logs("Tool execution"))
	addTool(server, "test_tool_with_progress", anything, progresses)
	addTool(server, "test_reconnection", anything, reconnects)
	addTool(server, "test_sampling", `{"type":"object","properties":{"prompt":{"type":"string"}},"required":["prompt"]}`, samples)
	addTool(server, "test_elicitation", `{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}`,
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return elicit(ctx, req, argument(req, "message"), `{"type":"object","required":["username","email"],"properties":{
				"username":{"type":"string","description":"User's response"},"email":{"type":"string","description":"User's email address"}}}`)
		})
	addTool(server, "test_elicitation_sep1034_defaults", anything, elicits(`{"type":"object","properties":{
		"name":{"type":"string","default":"John Doe"},"age":{"type":"integer","default":30},"score":{"type":"number","default":95.5},
		"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},"verified":{"type":"boolean","default":true}}}`))
	addTool(server, "test_elicitation_sep1330_enums", anything, elicits(`{"type":"object","properties":{
		"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
		"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},
		"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
		"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},
		"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},{"const":"value3","title":"Third Choice"}]}}}}`))
	addTool(server, "test_trigger_tool_change", anything, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		addTool(server, "transient", anything, logs())
		return result(text("the tools have changed")), nil
	})
	addTool(server, "test_trigger_prompt_change", anything, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		server.AddPrompt(&mcp.Prompt{Name: "transient", Description: "Another prompt"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return prompted(), nil
		})
		return result(text("the prompts have changed")), nil
	})
}

func logs(lines ...string) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for _, line := range lines {
			if err := req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: line}); err != nil {
				return nil, err
			}
			time.Sleep(pause)
		}
		return result(text("logged")), nil
	}
}

func progresses(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	token := req.Params.GetProgressToken()
	for _, done := range []float64{0, 50, 100} {
		if token != nil {
			if err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: done, Total: 100}); err != nil {
				return nil, err
			}
		}
		time.Sleep(pause)
	}
	return result(text("progressed")), nil
}

func reconnects(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if req.Extra != nil && req.Extra.CloseSSEStream != nil {
		req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: pause})
	}
	time.Sleep(2 * pause)
	return result(text("Reconnection test completed successfully")), nil
}

func samples(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	answer, err := req.Session.CreateMessage(ctx, sampling(argument(req, "prompt"), 100))
	if err != nil {
		return nil, err
	}
	content, ok := answer.Content.(*mcp.TextContent)
	if !ok {
		return nil, fmt.Errorf("the model's answer is a %T", answer.Content)
	}
	return result(text("LLM response: " + content.Text)), nil
}

func sampling(prompt string, maxTokens int64) *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{MaxTokens: maxTokens, Messages: []*mcp.SamplingMessage{{Role: "user", Content: text(prompt)}}}
}

func elicits(schema string) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return elicit(ctx, req, "What shall it be?", schema)
	}
}

func elicit(ctx context.Context, req *mcp.CallToolRequest, message, schema string) (*mcp.CallToolResult, error) {
	answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: message, RequestedSchema: json.RawMessage(schema)})
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(answer.Content)
	if err != nil {
		return nil, err
	}
	return result(text(fmt.Sprintf("Elicitation completed: action=%s, content=%s", answer.Action, content))), nil
}

func readTemplate(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri := req.Params.URI
	id, ok := strings.CutSuffix(strings.TrimPrefix(uri, "test://template/"), "/data")
	if !ok {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	data, err := json.Marshal(map[string]any{"id": id, "templateTest": true, "data": "Data for ID: " + id})
	if err != nil {
		return nil, err
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: "application/json", Text: string(data)}}}, nil
}

// invalid is the error of parameters that cannot be.
func invalid(reason string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: reason}
}
