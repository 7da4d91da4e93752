package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/control"
	"github.com/plughost/plughost/host/internal/logs"
)

// listTools returns the tools of a service, by name.
func listTools(ctx context.Context, client *control.Client, service string) ([]*mcp.Tool, error) {
	ref, err := callable(ctx, client, service)
	if err != nil {
		return nil, err
	}
	session, err := openSession(ctx, client, "/mcp/"+ref.Name, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot call service %s: %w", ref, err)
	}
	defer session.Close()
	return toolsOf(ctx, session, ref)
}

func toolsOf(ctx context.Context, session *mcp.ClientSession, ref config.Ref) ([]*mcp.Tool, error) {
	tools := []*mcp.Tool{} // not null in JSON
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return nil, fmt.Errorf("cannot list the tools of service %s: %w", ref, err)
		}
		tools = append(tools, tool)
	}
	slices.SortFunc(tools, func(a, b *mcp.Tool) int { return strings.Compare(a.Name, b.Name) })
	return tools, nil
}

// showTools prints the tools of a service.
func showTools(ctx context.Context, w io.Writer, at *location, client *control.Client, service string, asJSON bool) error {
	tools, err := listTools(ctx, client, service)
	switch {
	case err != nil:
		return at.explain(err)
	case asJSON:
		return writeJSON(w, tools)
	default:
		return writeTools(w, tools)
	}
}

// writeTools prints a line for each tool: its name, its arguments, and the
// beginning of what it says of itself.
func writeTools(w io.Writer, tools []*mcp.Tool) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TOOL\tARGUMENTS\tDESCRIPTION")
	for _, tool := range tools {
		parameters, err := parametersOf(tool)
		if err != nil {
			return err
		}
		about, _, _ := strings.Cut(strings.TrimSpace(tool.Description), "\n")
		fmt.Fprintf(table, "%s\t%s\t%s\n", logs.Printable(tool.Name), logs.Printable(parameters.String()), logs.Printable(about))
	}
	return table.Flush()
}

// parameters are what a tool takes.
type parameters struct {
	Properties map[string]struct {
		Type any `json:"type"` // a string, or several
	} `json:"properties"`
	Required []string `json:"required"`
}

// parametersOf reads a tool's input schema.
func parametersOf(tool *mcp.Tool) (p parameters, err error) {
	encoded, err := json.Marshal(tool.InputSchema)
	if err == nil {
		err = json.Unmarshal(encoded, &p)
	}
	if err != nil {
		return p, fmt.Errorf("cannot read what %s takes: %w", tool.Name, err)
	}
	return p, nil
}

// String names the arguments, those first that are required, and the others in
// brackets.
func (p parameters) String() string {
	required := slices.Sorted(slices.Values(p.Required))
	var optional []string
	for name := range p.Properties {
		if !slices.Contains(required, name) {
			optional = append(optional, "["+name+"]")
		}
	}
	slices.Sort(optional)
	if len(required)+len(optional) == 0 {
		return "-"
	}
	return strings.Join(append(required, optional...), " ")
}
