package gateway

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// listTimeout bounds one reading of all of a plugin's lists.
	listTimeout = 30 * time.Second
	// maxListed bounds each of them: a plugin whose pages never end must not
	// fill the host's memory.
	maxListed = 10_000
)

// features are what an MCP service has.
type features struct {
	tools     []*mcp.Tool
	prompts   []*mcp.Prompt
	resources []*mcp.Resource
	templates []*mcp.ResourceTemplate
}

// list reads all pages of all lists that the server says it has.
func list(ctx context.Context, session *mcp.ClientSession) (f features, err error) {
	has := session.InitializeResult().Capabilities
	if has == nil {
		return features{}, nil
	}
	if has.Tools != nil {
		if f.tools, err = collect("tools", session.Tools(ctx, nil)); err != nil {
			return features{}, err
		}
	}
	if has.Prompts != nil {
		if f.prompts, err = collect("prompts", session.Prompts(ctx, nil)); err != nil {
			return features{}, err
		}
	}
	if has.Resources != nil {
		if f.resources, err = collect("resources", session.Resources(ctx, nil)); err != nil {
			return features{}, err
		}
		if f.templates, err = collect("resource templates", session.ResourceTemplates(ctx, nil)); err != nil {
			return features{}, err
		}
	}
	return f, nil
}

// collect reads one list. A server that has no such method has an empty one:
// many have resources, and no templates.
func collect[T any](what string, items iter.Seq2[*T, error]) ([]*T, error) {
	var all []*T
	for one, err := range items {
		var wire *jsonrpc.Error
		switch {
		case errors.As(err, &wire) && wire.Code == jsonrpc.CodeMethodNotFound:
			return all, nil
		case err != nil:
			return nil, err
		case len(all) == maxListed:
			return nil, fmt.Errorf("it lists more than %d %s", maxListed, what)
		}
		all = append(all, one)
	}
	return all, nil
}
