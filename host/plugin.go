package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/plughost/plughost/host/internal/launch"
	"github.com/plughost/plughost/host/internal/plugincheck"
)

func newPluginCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugin",
		Short: "Help authors of plugins",
	}
	cmd.AddCommand(newPluginNewCommand(), newPluginCheckCommand())
	return cmd
}

// checkReadyTimeout is how long a plugin that is checked may take to start.
const checkReadyTimeout = 10 * time.Second

func newPluginCheckCommand() *cobra.Command {
	var configFile string
	var env, inherit []string
	var grace time.Duration
	var asJSON, strict bool
	cmd := &cobra.Command{
		Use:   "check COMMAND [ARGUMENT...]",
		Short: "Launch a plugin alone, and report on all that the plugin protocol promises",
		Long: `Launch a plugin alone, and report on all that the plugin protocol promises:
handshake, description, configuration, health, port, two instances side by side,
drain, stop, lifeline, standard output and log format. Each finding says what to
do. No installation is touched, and nothing is left.

Exit status: 0 all promises are kept, perhaps with warnings, 1 one is broken, or
with --strict there is a warning.`,
		Example: "  plughost plugin check bin/mcp-example\n  plughost plugin check --config clock.json --json bin/mcp-example\n  plughost plugin check node server.js",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := checkedSpec(args, env, inherit)
			if err != nil {
				return err
			}
			opts := plugincheck.Options{Grace: grace}
			if opts.Config, err = readConfigFile(configFile); err != nil {
				return err
			}
			if opts.Port, err = freePort(); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			report, err := plugincheck.Run(ctx, spec, opts)
			if err != nil {
				return err
			}
			if asJSON {
				err = writeJSON(cmd.OutOrStdout(), report)
			} else {
				err = writeReport(cmd.OutOrStdout(), report)
			}
			if err == nil && (report.Count(plugincheck.Failed) > 0 || strict && report.Count(plugincheck.Warning) > 0) {
				return errReported
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // the plugin's own flags are its arguments
	flags.StringVar(&configFile, "config", "", "JSON file to configure the plugin with, if it takes a configuration")
	flags.StringArrayVar(&env, "env", nil, "variable to set, as NAME=VALUE; may be given several times")
	flags.StringArrayVar(&inherit, "inherit", []string{"PATH", "HOME"}, "name of a variable to pass on; may be given several times")
	flags.DurationVar(&grace, "grace", 10*time.Second, "what the plugin gets to drain, to end, and to notice that its host is gone")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	flags.BoolVar(&strict, "strict", false, "exit with status 1 for warnings, too")
	return cmd
}

// checkedSpec says how a command line is launched.
func checkedSpec(args, env, inherit []string) (launch.Spec, error) {
	path, err := exec.LookPath(args[0])
	if errors.Is(err, exec.ErrDot) {
		err = nil
	}
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return launch.Spec{}, fmt.Errorf("cannot find the plugin: %w", err)
	}
	dir, err := os.Getwd()
	if err != nil {
		return launch.Spec{}, err
	}
	return launch.Spec{
		Name: "check", Path: path, Args: args, Dir: dir,
		Env:          append(launch.Environment(os.Environ(), inherit, nil), env...),
		ReadyTimeout: checkReadyTimeout,
	}, nil
}

func readConfigFile(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	content, err := os.ReadFile(path)
	if err == nil && !json.Valid(content) {
		err = fmt.Errorf("%s is not JSON", path)
	}
	return content, err
}

// freePort is a port that is free now.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

func writeReport(w io.Writer, report plugincheck.Report) error {
	signs := map[plugincheck.Outcome]string{
		plugincheck.Good: "ok", plugincheck.Warning: "warn", plugincheck.Failed: "FAIL", plugincheck.Skipped: "skip",
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range report.Findings {
		fmt.Fprintf(table, "%s\t%s\t%s\n", signs[f.Outcome], f.Check, f.Found)
		if f.Advice != "" {
			fmt.Fprintf(table, "\t\t-> %s\n", f.Advice)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s: %d good, %s, %d failed.\n", report.Plugin,
		report.Count(plugincheck.Good), count(report.Count(plugincheck.Warning), "warning"), report.Count(plugincheck.Failed))
	return err
}
