package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/plughost/plughost/probes"
)

// Exit statuses of identify, beside those of all commands.
const (
	exitNotOurs = 3
	exitUnknown = 4
)

// exitError is a result that is told by the exit status and was written
// already.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// identification is what identify finds.
type identification struct {
	PID   int          `json:"pid"`
	Proof probes.Proof `json:"proof"`
	Info  probes.Info  `json:"process"`
	// Installation is the one that was asked about.
	Installation string `json:"installation,omitempty"`
	// Recorded says whether the installation's registry names the process.
	Recorded bool `json:"recorded"`
}

func newIdentifyCommand(at *location) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "identify PID",
		Short: "Say whether a process is this installation's, and how that was proven",
		Long: `Say what a process is, whether it is this installation's, and how that was
proven, or why it was not. Nothing is done to the process.

Exit status: 0 it is ours, 3 it is not, 4 it could not be told.`,
		Example: "  plughost identify 4711\n  plughost identify --json 4711",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pid, err := strconv.Atoi(args[0])
			if err != nil {
				return usageError{fmt.Errorf("%q is not a pid: a number is wanted", args[0])}
			}
			found, err := identify(cmd.Context(), at, pid)
			if err != nil {
				return err
			}
			if !asJSON {
				writeIdentification(cmd.OutOrStdout(), found)
			} else if err := writeJSON(cmd.OutOrStdout(), found); err != nil {
				return err
			}
			switch found.Proof.Verdict {
			case probes.Ours:
				return nil
			case probes.NotOurs:
				return exitError(exitNotOurs)
			default:
				return exitError(exitUnknown)
			}
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func identify(ctx context.Context, at *location, pid int) (identification, error) {
	known, err := at.know(ctx)
	if err != nil {
		return identification{}, err
	}
	return known.identify(pid)
}

// identify says what a process is.
func (k knowledge) identify(pid int) (identification, error) {
	process, err := probes.Open(pid)
	switch {
	case errors.Is(err, probes.ErrGone):
		return identification{}, fmt.Errorf("there is no process %d", pid)
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, probes.ErrPermission):
		return identification{PID: pid, Installation: k.installation, Proof: probes.Proof{Reason: err.Error()}}, nil
	case err != nil:
		return identification{}, err
	}
	defer process.Close()
	found := identification{PID: pid, Installation: k.installation, Proof: k.prove(process)}
	if record, ok := k.record(pid); ok {
		found.Recorded = record.Birth.IsZero() || record.Birth.Same(found.Proof.Birth)
	}
	found.Info, err = process.Info()
	if err != nil && found.Proof.Reason == "" {
		found.Proof.Reason = err.Error()
	}
	return found, nil
}

func writeIdentification(w io.Writer, f identification) {
	fmt.Fprintf(w, "Process %d is %s.\n\n", f.PID, verdictText(f.Proof.Verdict))
	if f.Proof.By != "" {
		fmt.Fprintf(w, "  proof    %s\n", f.Proof.By)
	}
	if f.Proof.Reason != "" {
		fmt.Fprintf(w, "  reason   %s\n", f.Proof.Reason)
	}
	fmt.Fprintf(w, "  marker   %s\n", describeIdentity(f.Proof.Identity, f.Installation))
	if f.Recorded {
		fmt.Fprintf(w, "  record   in the registry\n")
	}
	if f.Info.PID != 0 {
		fmt.Fprintf(w, "  command  %s\n", commandLine(f.Info))
		fmt.Fprintf(w, "  process  %s, of user %s, parent %d, group %d\n",
			f.Info.State, owner(f.Info.User, f.Info.UID), f.Info.PPID, f.Info.PGID)
	}
}

func verdictText(v probes.Verdict) string {
	switch v {
	case probes.Ours:
		return "ours"
	case probes.NotOurs:
		return "not ours"
	default:
		return "unknown"
	}
}
