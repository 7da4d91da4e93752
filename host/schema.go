package main

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/plughost/plughost/host/internal/config"
)

func newSchemaCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Describe the language of the configuration",
		Long: `Describe every block and argument of the configuration and every function, as
tables of Markdown or, for editors, as JSON.`,
		Example: "  plughost schema --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			language := config.Language()
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), language)
			}
			return writeSchema(cmd.OutOrStdout(), language)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func writeSchema(w io.Writer, language config.Schema) error {
	tables := language.Reference()
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		if _, err := fmt.Fprintf(w, "## %s\n\n%s\n", name, tables[name]); err != nil {
			return err
		}
	}
	return nil
}
