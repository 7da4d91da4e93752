//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestMain makes the test binary the servers that tests have hosted, too.
func TestMain(m *testing.M) {
	var err error
	switch slices.Concat(os.Args, []string{""})[1] {
	case "serve":
		err = serve()
	case "serve with sessions":
		err = serve(methodDiscover)
	case "serve without sessions":
		err = serve("initialize")
	case "end":
		err = endAt(os.Args[2])
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const (
	watched = "test://watched"
	plain   = "test://plain"
)

// serve serves on standard input and output, but for methods that it does not
// know.
func serve(unknown ...string) error {
	server := newServer()
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if slices.Contains(unknown, method) {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found"}
			}
			return next(ctx, method, req)
		}
	})
	return server.Run(context.Background(), &mcp.StdioTransport{})
}

// newServer is a server of the official SDK.
func newServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		Capabilities:       &mcp.ServerCapabilities{Logging: &mcp.LoggingCapabilities{}},
	})
	for _, uri := range []string{watched, plain} {
		server.AddResource(&mcp.Resource{Name: uri, URI: uri}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{}, nil
		})
	}
	add := func(name string, do func(ctx context.Context, session *mcp.ServerSession, token any) (string, error)) {
		mcp.AddTool(server, &mcp.Tool{Name: name}, func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			text, err := do(ctx, req.Session, req.Params.GetProgressToken())
			if err != nil {
				return nil, nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
		})
	}
	server.AddTool(&mcp.Tool{Name: "need", InputSchema: map[string]any{"type": "object"}}, need)
	city := map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string", "x-mcp-header": "City"}}}
	server.AddTool(&mcp.Tool{Name: "where", InputSchema: city}, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: req.Extra.Header.Get("Mcp-Param-City")}}}, nil
	})
	cancelled := make(chan struct{}, 16)
	add("pid", func(context.Context, *mcp.ServerSession, any) (string, error) { return fmt.Sprint(os.Getpid()), nil })
	add("ask", func(ctx context.Context, session *mcp.ServerSession, _ any) (string, error) {
		answer, err := session.Elicit(ctx, &mcp.ElicitParams{Message: "?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}})
		if err != nil {
			return "", err
		}
		return answer.Action, nil
	})
	add("roots", func(ctx context.Context, session *mcp.ServerSession, _ any) (string, error) {
		roots, err := session.ListRoots(ctx, nil)
		if err != nil {
			return "", err
		}
		return fmt.Sprint(len(roots.Roots)), nil
	})
	add("wait", func(ctx context.Context, session *mcp.ServerSession, token any) (string, error) {
		if token != nil {
			if err := session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1}); err != nil {
				return "", err
			}
		}
		select {
		case <-ctx.Done():
			cancelled <- struct{}{}
		case <-time.After(time.Minute):
		}
		return "", ctx.Err()
	})
	var tokens []any
	add("late", func(ctx context.Context, session *mcp.ServerSession, token any) (string, error) {
		tokens = append(tokens, token)
		for _, token := range tokens {
			if err := session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1}); err != nil {
				return "", err
			}
		}
		return "", nil
	})
	add("cancelled", func(ctx context.Context, _ *mcp.ServerSession, _ any) (string, error) {
		select {
		case <-cancelled:
		case <-ctx.Done():
		}
		return "", ctx.Err()
	})
	add("log", func(ctx context.Context, session *mcp.ServerSession, _ any) (string, error) {
		for _, level := range []mcp.LoggingLevel{"debug", "info", "error"} {
			if err := session.Log(ctx, &mcp.LoggingMessageParams{Level: level, Data: "d"}); err != nil {
				return "", err
			}
		}
		return "", nil
	})
	add("update", func(ctx context.Context, _ *mcp.ServerSession, _ any) (string, error) {
		for _, uri := range []string{plain, watched} {
			if err := server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: uri}); err != nil {
				return "", err
			}
		}
		return "", nil
	})
	add("change", func(context.Context, *mcp.ServerSession, any) (string, error) {
		add("new", func(context.Context, *mcp.ServerSession, any) (string, error) { return "", nil })
		return "", nil
	})
	return server
}

// need is a tool that asks for something in its result, as servers without
// sessions do, twice.
func need(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	answer, ok := req.Params.InputResponses["who"].(*mcp.ElicitResult)
	switch {
	case ok && req.Params.RequestState == "second":
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: answer.Action}}}, nil
	case ok:
		return who("second"), nil
	default:
		return who("first"), nil
	}
}

func who(state string) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		InputRequests: mcp.InputRequestMap{"who": &mcp.ElicitParams{Message: "who?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}}},
		RequestState:  state,
	}
}
