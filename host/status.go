package main

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/plughost/plughost/host/internal/control"
	"github.com/plughost/plughost/host/internal/supervise"
)

func newStatusCommand(at *location) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show the host and the state of its services",
		Example: "  plughost status\n  plughost status --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := at.client()
			if err != nil {
				return err
			}
			status, err := client.Status(cmd.Context())
			if err != nil {
				return at.explain(err)
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), status)
			}
			return writeStatus(cmd.OutOrStdout(), status, time.Now())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func writeStatus(w io.Writer, status control.Status, now time.Time) error {
	fmt.Fprintf(w, "plughost %s, pid %d, up %s, gateway %s\n\n",
		status.Version, status.PID, age(now.Sub(status.Started)), status.Gateway)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "KIND\tSERVICE\tSTATE\tSINCE\tPID\tPORT\tRESTARTS")
	for _, s := range status.Services {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\n",
			s.Service.Kind, s.Service.Name, s.State, age(now.Sub(s.Since)), number(s.PID), number(s.Port), s.Restarts)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, s := range status.Services {
		switch {
		case s.LastError != "":
			fmt.Fprintf(w, "\n%s: %s\n", s.Service, s.LastError)
		case s.State == supervise.Waiting:
			fmt.Fprintf(w, "\n%s: %s\n", s.Service, s.Cause)
		}
	}
	return nil
}

func number(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// age is a duration as people read it at a glance.
func age(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}
