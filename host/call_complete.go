package main

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/plughost/plughost/host/internal/logs"
)

// completeCall offers a shell what a word of a call can be: a service, a tool of
// it, or the name of an argument of that.
func (l *location) completeCall(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return l.completeService(cmd, args, word)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
	defer cancel()
	var offers []cobra.Completion
	directive := cobra.ShellCompDirectiveNoFileComp
	for _, tool := range l.toolsOf(ctx, args[0]) {
		switch {
		case len(args) == 1 && strings.HasPrefix(tool.Name, word):
			description, _, _ := strings.Cut(tool.Description, "\n")
			offers = append(offers, cobra.CompletionWithDesc(logs.Printable(tool.Name), logs.Printable(description)))
		case len(args) > 1 && tool.Name == args[1]:
			directive |= cobra.ShellCompDirectiveNoSpace
			offers = argumentNames(tool, word)
		}
	}
	slices.Sort(offers)
	return offers, directive
}

// toolsOf are the tools of a service, as far as they can be known in time.
func (l *location) toolsOf(ctx context.Context, service string) []*mcp.Tool {
	client, err := l.client()
	if err != nil {
		return nil
	}
	ref, err := callable(ctx, client, service)
	if err != nil {
		return nil
	}
	session, err := openSession(ctx, client, "/mcp/"+ref.Name, nil)
	if err != nil {
		return nil
	}
	defer session.Close()
	list, err := session.ListTools(ctx, nil)
	if err != nil {
		return nil
	}
	return list.Tools
}

// argumentNames are those of a tool that begin with a word, as NAME=.
func argumentNames(tool *mcp.Tool, word string) (offers []cobra.Completion) {
	var schema struct {
		Properties map[string]any `json:"properties"`
	}
	encoded, err := json.Marshal(tool.InputSchema)
	if err != nil || json.Unmarshal(encoded, &schema) != nil {
		return nil
	}
	for name := range maps.Keys(schema.Properties) {
		if strings.HasPrefix(name, word) {
			offers = append(offers, logs.Printable(name)+"=")
		}
	}
	return offers
}
