//go:build unix

package main

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"strings"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func addTools(server *mcp.Server) {
	mcp.AddTool(server, &mcp.Tool{Name: "pid", Description: "The plugin's pid"}, pid)
	mcp.AddTool(server, &mcp.Tool{Name: "write", Description: "Write to the plugin's output"}, write)
	mcp.AddTool(server, &mcp.Tool{Name: "close", Description: "Close the plugin's output"}, closeOutput)
	mcp.AddTool(server, &mcp.Tool{Name: "exit", Description: "Exit at once"}, exit)
	mcp.AddTool(server, &mcp.Tool{Name: "wait", Description: "Wait to be cancelled"}, wait)
	mcp.AddTool(server, &mcp.Tool{Name: "meta", Description: "The _meta of the call"}, meta)
	mcp.AddTool(server, &mcp.Tool{Name: "large", Description: "Return a large result"}, large)
	mcp.AddTool(server, &mcp.Tool{Name: "echo", Description: "Say what it is told"}, echo)
	mcp.AddTool(server, &mcp.Tool{Name: "ask", Description: "Ask the client's user"}, ask)
	var door door
	mcp.AddTool(server, &mcp.Tool{Name: "enter", Description: "Refuse who has not signed in"}, door.enter)
	mcp.AddTool(server, &mcp.Tool{Name: "open", Description: "Let all in from now on"}, door.signIn)
	mcp.AddTool(server, &mcp.Tool{Name: "sample", Description: "Ask the client's model"}, sample)
}

type pidOutput struct {
	PID int `json:"pid"`
}

func pid(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, pidOutput, error) {
	return nil, pidOutput{PID: os.Getpid()}, nil
}

type echoInput struct {
	Message string `json:"message"`
}

func echo(_ context.Context, _ *mcp.CallToolRequest, in echoInput) (*mcp.CallToolResult, any, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Message}}}, nil, nil
}

type nothing struct{}

type writeInput struct {
	Stream  string `json:"stream"`            // stdout or stderr
	Library bool   `json:"library,omitempty"` // as the program sees it: go-plugin's pipe, not the process's own
	Base64  string `json:"base64"`            // what to write
	Times   int    `json:"times"`
}

func write(_ context.Context, _ *mcp.CallToolRequest, in writeInput) (*mcp.CallToolResult, nothing, error) {
	data, err := base64.StdEncoding.DecodeString(in.Base64)
	if err != nil {
		return nil, nothing{}, err
	}
	streams := map[string]*os.File{"stdout": stdout, "stderr": stderr}
	if in.Library {
		streams = map[string]*os.File{"stdout": os.Stdout, "stderr": os.Stderr}
	}
	for range in.Times {
		if _, err := streams[in.Stream].Write(data); err != nil {
			return nil, nothing{}, err
		}
	}
	return nil, nothing{}, nil
}

func closeOutput(context.Context, *mcp.CallToolRequest, nothing) (*mcp.CallToolResult, nothing, error) {
	return nil, nothing{}, errors.Join(stdout.Close(), stderr.Close())
}

type exitInput struct {
	Status int    `json:"status"`
	Words  string `json:"words"` // written to standard error first
}

func exit(_ context.Context, _ *mcp.CallToolRequest, in exitInput) (*mcp.CallToolResult, nothing, error) {
	_, err := stderr.WriteString(in.Words)
	if err == nil {
		os.Exit(in.Status)
	}
	return nil, nothing{}, err
}

type waitInput struct {
	// Began is a file that is made when the call has begun, and removed when it
	// was cancelled.
	Began string `json:"began"`
}

func wait(ctx context.Context, req *mcp.CallToolRequest, in waitInput) (*mcp.CallToolResult, nothing, error) {
	if token := req.Params.GetProgressToken(); token != nil {
		progress := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1, Total: 2, Message: "waiting"}
		if err := req.Session.NotifyProgress(ctx, progress); err != nil {
			return nil, nothing{}, err
		}
	}
	if err := os.WriteFile(in.Began, nil, 0o600); err != nil {
		return nil, nothing{}, err
	}
	<-ctx.Done()
	return nil, nothing{}, os.Remove(in.Began)
}

func meta(_ context.Context, req *mcp.CallToolRequest, _ nothing) (*mcp.CallToolResult, map[string]any, error) {
	return nil, req.Params.Meta, nil
}

type largeInput struct {
	Bytes int `json:"bytes"`
}

func large(_ context.Context, _ *mcp.CallToolRequest, in largeInput) (*mcp.CallToolResult, any, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.Repeat("0123456789abcdef", in.Bytes/16)}}}, nil, nil
}

type askInput struct {
	Message string         `json:"message"`
	Schema  map[string]any `json:"schema,omitempty"` // of a form; without one there are no fields
	URL     string         `json:"url,omitempty"`    // in the place of a form
}

type askOutput struct {
	Action  string         `json:"action"`
	Content map[string]any `json:"content,omitempty"`
}

func ask(ctx context.Context, req *mcp.CallToolRequest, in askInput) (*mcp.CallToolResult, askOutput, error) {
	question := &mcp.ElicitParams{Message: in.Message, RequestedSchema: in.Schema}
	switch {
	case in.URL != "":
		question = &mcp.ElicitParams{Mode: "url", Message: in.Message, URL: in.URL, ElicitationID: "1"}
	case in.Schema == nil:
		question.RequestedSchema = map[string]any{"type": "object", "properties": map[string]any{}}
	}
	answer, err := req.Session.Elicit(ctx, question)
	if err != nil {
		return nil, askOutput{}, err
	}
	return nil, askOutput{answer.Action, answer.Content}, nil
}

func sample(ctx context.Context, req *mcp.CallToolRequest, _ nothing) (*mcp.CallToolResult, nothing, error) {
	_, err := req.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 1, Messages: []*mcp.SamplingMessage{
		{Role: "user", Content: &mcp.TextContent{Text: "?"}},
	}})
	return nil, nothing{}, err
}

// door is shut to all until somebody has signed in elsewhere.
type door struct{ open atomic.Bool }

func (d *door) enter(context.Context, *mcp.CallToolRequest, nothing) (*mcp.CallToolResult, nothing, error) {
	if d.open.Load() {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "welcome"}}}, nothing{}, nil
	}
	return nil, nothing{}, mcp.URLElicitationRequiredError([]*mcp.ElicitParams{{Mode: "url", Message: "Sign in", URL: "https://example.com/sign-in", ElicitationID: "1"}})
}

func (d *door) signIn(context.Context, *mcp.CallToolRequest, nothing) (*mcp.CallToolResult, nothing, error) {
	d.open.Store(true)
	return nil, nothing{}, nil
}
