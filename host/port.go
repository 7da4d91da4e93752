package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/plughost/plughost/host/internal/logs"
	"github.com/plughost/plughost/probes"
)

// holder is a process that listens on a port, and whether it is ours.
type holder struct {
	probes.Listener
	Proof probes.Proof `json:"proof"`
}

// portReport is what port finds.
type portReport struct {
	Port         int      `json:"port"`
	Installation string   `json:"installation,omitempty"`
	Holders      []holder `json:"holders"`
}

func newPortCommand(at *location) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "port PORT",
		Short:   "Say who listens on a TCP port, and whether it is this installation's",
		Example: "  plughost port 8101\n  plughost port --json 8101",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			port, err := strconv.Atoi(args[0])
			if err != nil || port < 1 || port > 65535 {
				return usageError{fmt.Errorf("%q is not a port: a number from 1 to 65535 is wanted", args[0])}
			}
			report, err := lookAtPort(cmd.Context(), at, port)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), report)
			}
			writePortReport(cmd.OutOrStdout(), report)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func lookAtPort(ctx context.Context, at *location, port int) (portReport, error) {
	known, err := at.know(ctx)
	if err != nil {
		return portReport{}, err
	}
	report := portReport{Port: port, Installation: known.installation, Holders: []holder{}}
	listeners, err := probes.Listeners(ctx, port)
	if err != nil {
		return report, fmt.Errorf("cannot look who listens on port %d: %w", port, err)
	}
	for _, listener := range listeners {
		h := holder{Listener: listener, Proof: probes.Proof{Reason: listener.Reason}}
		if listener.PID != 0 {
			h.Proof = known.proveByPID(listener.PID)
		}
		report.Holders = append(report.Holders, h)
	}
	return report, nil
}

// proveByPID is prove for a process that is not held yet.
func (k knowledge) proveByPID(pid int) probes.Proof {
	process, err := probes.Open(pid)
	if err != nil {
		return probes.Proof{Reason: err.Error(), Err: err}
	}
	defer process.Close()
	return k.prove(process)
}

func writePortReport(w io.Writer, report portReport) {
	if len(report.Holders) == 0 {
		fmt.Fprintf(w, "Nobody listens on port %d.\n", report.Port)
		return
	}
	for _, h := range report.Holders {
		if h.PID == 0 {
			fmt.Fprintf(w, "%s is held by a process that is not visible, of user %s: %s.\n",
				h.Addr, owner(h.User, h.UID), h.Reason)
			continue
		}
		fmt.Fprintf(w, "%s is held by process %d, which is %s.\n", h.Addr, h.PID, verdictText(h.Proof.Verdict))
		if h.Proof.Reason != "" && !errors.Is(h.Proof.Err, probes.ErrGone) {
			fmt.Fprintf(w, "  reason   %s\n", h.Proof.Reason)
		}
		fmt.Fprintf(w, "  marker   %s\n", describeIdentity(h.Proof.Identity, report.Installation))
		fmt.Fprintf(w, "  command  %s\n", logs.Printable(h.Command))
		fmt.Fprintf(w, "  user     %s\n", owner(h.User, h.UID))
	}
}
