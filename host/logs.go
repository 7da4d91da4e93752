package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/logs"
)

func newLogsCommand(at *location) *cobra.Command {
	var asJSON bool
	var tail int
	cmd := &cobra.Command{
		Use:     "logs SERVICE...",
		Short:   "Print what services wrote, and what happened to them",
		Example: "  plughost logs clock\n  plughost logs --tail 20 clock assistant",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			paths, err := at.installation()
			if err != nil {
				return err
			}
			known, err := logged(paths.Logs())
			if err != nil {
				return err
			}
			var entries []logs.Entry
			for _, arg := range args {
				ref, err := find(known, arg)
				if err != nil {
					return err
				}
				err = logs.Read(logs.Path(paths.Logs(), ref.String()), func(e logs.Entry) bool {
					entries = append(entries, e)
					return true
				})
				if err != nil {
					return err
				}
			}
			slices.SortStableFunc(entries, func(a, b logs.Entry) int { return a.Time.Compare(b.Time) })
			if tail >= 0 && len(entries) > tail {
				entries = entries[len(entries)-tail:]
			}
			encoder := json.NewEncoder(cmd.OutOrStdout())
			for _, entry := range entries {
				if asJSON {
					err = encoder.Encode(entry)
				} else {
					_, err = fmt.Fprintln(cmd.OutOrStdout(), entry.Format())
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object a line")
	cmd.Flags().IntVarP(&tail, "tail", "n", -1, "print only the last `N` lines")
	return cmd
}

// logged are the services that have a log. It needs no running host.
func logged(dir string) ([]config.Ref, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read the logs: %w", err)
	}
	var refs []config.Ref
	for _, entry := range entries {
		service, ok := strings.CutSuffix(filepath.Base(entry.Name()), ".jsonl")
		if !ok {
			continue
		}
		if kind, name, ok := strings.Cut(service, "."); ok {
			refs = append(refs, config.Ref{Kind: config.Kind(kind), Name: name})
		}
	}
	return refs, nil
}
