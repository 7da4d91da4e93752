package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/control"
)

func newValidateCommand() *cobra.Command {
	var paths []string
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check a configuration, and change nothing",
		Example: `  plughost validate --config services.hcl
  plughost validate --config /etc/plughost`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conf, warnings, err := loadConfig(paths)
			if err != nil {
				return err
			}
			if err := writeDiagnostics(os.Stderr, warnings); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "The configuration is valid: %s.\n", count(len(conf.Services), "service"))
			return nil
		},
	}
	addConfigFlag(cmd, &paths)
	return cmd
}

func addConfigFlag(cmd *cobra.Command, paths *[]string) {
	cmd.Flags().StringArrayVarP(paths, "config", "c", []string{"services.hcl"},
		"configuration file or directory; may be given several times")
}

// loadConfig reads a configuration. What is wrong with it is written to
// standard error, and the error is errReported then; mere warnings are left to
// the caller to write.
func loadConfig(paths []string) (*config.Config, *config.Diagnostics, error) {
	conf, diags := config.Load(paths...)
	if !diags.HasErrors() {
		return conf, diags, nil
	}
	if err := writeDiagnostics(os.Stderr, diags); err != nil {
		return nil, nil, err
	}
	return nil, nil, errReported
}

func writeDiagnostics(w io.Writer, diags *config.Diagnostics) error {
	terminal := terminalOf(w)
	return config.WriteDiagnostics(w, diags, terminal.Color, terminal.Width)
}

// terminalOf is how text for people is to be made that is written to w.
func terminalOf(w io.Writer) control.Terminal {
	var t control.Terminal
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		t.Color = os.Getenv("NO_COLOR") == ""
		t.Width, _, _ = term.GetSize(int(f.Fd()))
	}
	return t
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %s", n, plural(noun))
}

func plural(noun string) string {
	if noun[len(noun)-1] == 's' {
		return noun + "es"
	}
	return noun + "s"
}
