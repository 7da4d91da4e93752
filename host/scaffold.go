package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/plughost/plughost/host/internal/scaffold"
)

func newPluginNewCommand() *cobra.Command {
	var p scaffold.Plugin
	var dir string
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Write the module of a new plugin, which builds, tests and runs",
		Long: `Write a small Go module: a plugin with one tool, or an agent that answers, a
setting, a test that hosts it for real, and a configuration to run it with.
Nothing that is there already is overwritten. As long as plughost is not
published as a Go module, --replace has to name a checkout of it.`,
		Example: "  plughost plugin new weather --kind mcp --module example.com/weather\n  plughost plugin new helper --kind agent --replace ~/src/plughost",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			p.Name = args[0]
			if dir == "" {
				dir = p.Name
			}
			if p.Module == "" {
				p.Module = p.Name
			}
			if p.Replace != "" {
				if p.Replace, err = filepath.Abs(p.Replace); err != nil {
					return err
				}
			}
			files, err := p.Write(dir)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			for _, file := range files {
				fmt.Fprintln(out, filepath.Join(dir, file))
			}
			_, err = fmt.Fprintf(out, `
Next:
  cd %[1]s
  go mod tidy
  go test ./...
  go build -o bin/%[2]s .
  plughost plugin check bin/%[2]s
  plughost run --config services.hcl
`, dir, p.Name)
			return err
		},
	}
	cmd.Flags().StringVar(&p.Kind, "kind", scaffold.KindMCP, "mcp for an MCP server, agent for an A2A agent")
	cmd.Flags().StringVar(&dir, "dir", "", "directory to write into (default NAME)")
	cmd.Flags().StringVar(&p.Module, "module", "", "path of the Go module (default NAME)")
	cmd.Flags().StringVar(&p.Replace, "replace", "", "directory of a checkout of plughost to build against, instead of the published module")
	return cmd
}
