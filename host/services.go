package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/control"
)

// newVerbCommand makes the command of a verb that the control API has for
// services.
func newVerbCommand(at *location, verb, short, done string) *cobra.Command {
	return &cobra.Command{
		Use:     verb + " SERVICE...",
		Short:   short,
		Example: fmt.Sprintf("  plughost %[1]s clock\n  plughost %[1]s agent.assistant", verb),
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := at.client()
			if err != nil {
				return err
			}
			refs, err := resolve(cmd.Context(), client, args)
			if err != nil {
				return at.explain(err)
			}
			for _, ref := range refs {
				if err := client.Do(cmd.Context(), ref, control.Verb(verb)); err != nil {
					return at.explain(err)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s %s.\n", done, ref)
			}
			return nil
		},
	}
}

// resolve finds the services that a person names: by name, or by kind and name
// as in agent.assistant.
func resolve(ctx context.Context, client *control.Client, names []string) ([]config.Ref, error) {
	known, err := known(ctx, client)
	if err != nil {
		return nil, err
	}
	refs := make([]config.Ref, len(names))
	for i, name := range names {
		if refs[i], err = find(known, name); err != nil {
			return nil, err
		}
	}
	return refs, nil
}

// known are the services of the running host.
func known(ctx context.Context, client *control.Client) ([]config.Ref, error) {
	status, err := client.Status(ctx)
	if err != nil {
		return nil, err
	}
	refs := make([]config.Ref, len(status.Services))
	for i, service := range status.Services {
		refs[i] = service.Service
	}
	return refs, nil
}

func find(known []config.Ref, name string) (config.Ref, error) {
	var found []config.Ref
	all := make([]string, len(known))
	for i, ref := range known {
		all[i] = ref.String()
		if ref.Name == name || ref.String() == name {
			found = append(found, ref)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return config.Ref{}, fmt.Errorf("there is no service %q: there are %s", name, strings.Join(all, ", "))
	default:
		return config.Ref{}, fmt.Errorf("%q names %s and %s: say which", name, found[0], found[1])
	}
}
