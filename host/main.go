// Command plughost runs MCP servers and agents as plugins, and steers the host
// that does.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/plughost/plughost/host/internal/control"
)

// Exit statuses.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	os.Exit(execute(context.Background(), os.Args[1:]))
}

// execute runs the command line and returns the exit status: 0 done, 1 failed,
// 2 wrong usage, and for identify what its help says.
func execute(ctx context.Context, args []string) int {
	root, ran := newRootCommand()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var status exitError
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "plughost: %v\n", err)
		return exitUsage
	case errors.Is(err, errReported):
		return exitFailed
	case !*ran:
		fmt.Fprintf(os.Stderr, "plughost: %v\nRun 'plughost help' for usage.\n", err)
		return exitUsage
	default:
		fmt.Fprintf(os.Stderr, "plughost: %v\n", err)
		return exitFailed
	}
}

// errReported is the error of a command that has said already what went wrong.
var errReported = errors.New("reported")

// usageError is wrong usage that a command itself found.
type usageError struct{ error }

func newRootCommand() (root *cobra.Command, ran *bool) {
	ran = new(bool)
	var at location
	root = &cobra.Command{
		Use:   "plughost",
		Short: "Run MCP servers and AI agents as plugins, and never lose one",
		Long: `plughost runs MCP servers and AI agents as plugins, described in HCL. It keeps
them alive, puts one MCP and one A2A endpoint in front of all of them and, after
any crash, takes back exactly the processes that are its own.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		// What comes after it is no wrong usage any more.
		PersistentPreRun: func(*cobra.Command, []string) { *ran = true },
	}
	root.PersistentFlags().StringVar(&at.stateDir, "state-dir", "",
		"state directory of the installation (default $PLUGHOST_STATE_DIR, or "+defaultStateDir()+")")
	_ = root.MarkPersistentFlagDirname("state-dir")
	root.AddCommand(
		newRunCommand(&at),
		newValidateCommand(&at),
		newSchemaCommand(),
		newFmtCommand(),
		newPlanCommand(&at),
		newReloadCommand(&at),
		newStatusCommand(&at),
		newLogsCommand(&at),
		newEventsCommand(&at),
		newAskCommand(&at),
		newVerbCommand(&at, control.Start, "Start a service that is stopped or has failed"),
		newVerbCommand(&at, control.Stop, "Stop a service, and end all that belongs to it"),
		newVerbCommand(&at, control.Restart, "Replace a service's instance by a new one"),
		newCallCommand(&at),
		newMCPCommand(&at),
		newIdentifyCommand(&at),
		newPortCommand(&at),
		newOrphansCommand(&at),
		newPluginCommand(),
		newDoctorCommand(&at),
		newBootCommand(&at),
		newVersionCommand(),
	)
	return root, ran
}

func newVersionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  plughost version\n  plughost version --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), map[string]string{"version": version()})
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "plughost", version())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// version is the module's, as the Go toolchain stamped it into the binary.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
