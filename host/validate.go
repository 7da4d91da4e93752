package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/control"
	"github.com/plughost/plughost/host/internal/launch"
)

func newValidateCommand(at *location) *cobra.Command {
	var in config.Input
	var asJSON, noPlugins bool
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check a configuration, and change nothing",
		Long: `Check a configuration, and show every fault with its place. With --json the
findings have the form that they have in terraform validate -json.

What a config block can say, the service's plugin declares. A plugin that the
state directory does not know yet is launched to be asked, without its
configuration and its port, and ended at once; services without a config block
launch nothing. With --no-plugins nothing is executed, whatever the files say:
config blocks are then checked only against what is known already.

Exit status: 0 valid, perhaps with warnings, 1 not valid.`,
		Example: `  plughost validate --config services.hcl
  plughost validate --config /etc/plughost --var-file prod.hcl --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := requireInput(cmd); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			conf, diags := in.Load()
			if conf != nil {
				checker := newPluginChecker(at.dir(conf.Host.StateDir), &launch.Spawner{}, &launch.Binaries{})
				checker.asks = !noPlugins
				checker.askUnknown = true
				diags = checker.check(ctx, conf)
			}
			if asJSON {
				return reportJSON(cmd.OutOrStdout(), diags)
			}
			if err := writeDiagnostics(os.Stderr, diags); err != nil {
				return err
			}
			if diags.HasErrors() {
				return errReported
			}
			fmt.Fprintf(cmd.OutOrStdout(), "The configuration is valid: %s.\n", count(len(conf.Services), "service"))
			return nil
		},
	}
	addInputFlags(cmd, &in)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&noPlugins, "no-plugins", false, "launch no plugin to ask what it can be configured with")
	return cmd
}

func reportJSON(w io.Writer, diags *config.Diagnostics) error {
	if err := writeJSON(w, diags.Report()); err != nil {
		return err
	}
	if diags.HasErrors() {
		return errReported
	}
	return nil
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
