package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/control"
	"github.com/plughost/plughost/host/internal/events"
	"github.com/plughost/plughost/host/internal/logs"
	"github.com/plughost/plughost/host/internal/supervise"
)

func newEventsCommand(at *location) *cobra.Command {
	var asJSON, follow bool
	cmd := &cobra.Command{
		Use:   "events [SERVICE...]",
		Short: "Print what happened to the host and its services",
		Long: `Print what happened to the running host and its services of late: every change
of a service's state with its cause, and what the host found and did besides.
With a SERVICE it is what happened to that alone.`,
		Example:           "  plughost events\n  plughost events -f clock\n  plughost events -f --json",
		ValidArgsFunction: at.completeServices,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := at.client()
			if err != nil {
				return err
			}
			var refs []config.Ref
			if len(args) > 0 {
				if refs, err = resolve(cmd.Context(), client, args); err != nil {
					return at.explain(err)
				}
			}
			out := cmd.OutOrStdout()
			color := colored(out)
			err = client.Events(cmd.Context(), control.EventQuery{Services: refs, Follow: follow}, func(event events.Event) error {
				if asJSON {
					return json.NewEncoder(out).Encode(event)
				}
				return writeEvent(out, event, color)
			})
			if err != nil {
				return at.explain(err)
			}
			if follow {
				fmt.Fprintln(os.Stderr, "plughost: the host has ended")
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on as things happen")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object a line")
	return cmd
}

// writeEvent writes an event as a line for people.
func writeEvent(w io.Writer, event events.Event, color bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s ", event.Time.Local().Format("2006-01-02 15:04:05.000"))
	what := string(event.Type)
	if event.Type == events.ServiceChanged {
		what = fmt.Sprintf("%s -> %s", event.From, event.To)
	}
	if sgr := eventColor(event); color && sgr != 0 {
		what = paint(sgr, what)
	}
	if event.Service != "" {
		fmt.Fprintf(&b, "%s ", event.Service)
	}
	b.WriteString(what)
	if event.PID != 0 {
		fmt.Fprintf(&b, " (pid %d)", event.PID)
	}
	// The last words of a plugin are lines of their own in a cause.
	fmt.Fprintf(&b, ": %s", oneLine(event.Cause))
	if event.Error != "" && !strings.Contains(event.Cause, event.Error) && event.Type != events.ServiceChanged {
		fmt.Fprintf(&b, ": %s", logs.Printable(event.Error))
	}
	if !event.NextTry.IsZero() {
		fmt.Fprintf(&b, "; the next try is in %v", event.NextTry.Sub(event.Time).Round(time.Millisecond))
	}
	_, err := fmt.Fprintln(w, b.String())
	return err
}

// eventColor is the SGR parameter by which a terminal shows how good an event
// is, or 0.
func eventColor(event events.Event) int {
	switch event.Type {
	case events.HostReady:
		return sgrGreen
	case events.OrphanReclaimed, events.ProcessLeftAlone, events.PortHeld, events.Lost:
		return sgrYellow
	case events.ReclaimFailed, events.RegistryMoved:
		return sgrRed
	}
	return stateColor(event.To)
}

// stateColor is that of a state.
func stateColor(state supervise.State) int {
	switch state {
	case supervise.Ready:
		return sgrGreen
	case supervise.Unhealthy, supervise.Backoff:
		return sgrYellow
	case supervise.Failed:
		return sgrRed
	}
	return 0
}
