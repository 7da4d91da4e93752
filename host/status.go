package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/control"
	"github.com/plughost/plughost/host/internal/registry"
	"github.com/plughost/plughost/host/internal/supervise"
	"github.com/plughost/plughost/probes"
)

// refresh is how often status --watch looks again.
const refresh = time.Second

func newStatusCommand(at *location) *cobra.Command {
	var asJSON, watch bool
	cmd := &cobra.Command{
		Use:   "status [SERVICE...]",
		Short: "Show the host and the state of its services",
		Long: `Show the host and the state of its services. With a SERVICE all that is known of
it is shown, with the proof that its process is this installation's.

MEMORY and CPU are what all processes of a service take together: bytes that are
resident, or charged to its control group, and the processors' time that they
used since their start; with --watch the share of a processor since the last
look.

Without a host what the registry says is shown: what the last host launched, and
what of it is still there. The exit status is 1 then.`,
		Example:           "  plughost status\n  plughost status clock\n  plughost status --watch\n  plughost status --json",
		ValidArgsFunction: at.completeServices,
		RunE: func(cmd *cobra.Command, args []string) error {
			if watch {
				if asJSON {
					return usageError{errors.New("--watch is for people: plughost events --follow --json is for programs")}
				}
				return watchStatus(cmd.Context(), at, cmd.OutOrStdout(), args)
			}
			client, err := at.client()
			if err != nil {
				return err
			}
			status, err := statusOf(cmd.Context(), client, args)
			if errors.Is(err, control.ErrNoHost) {
				return writeRegistry(cmd.Context(), at, cmd.OutOrStdout(), asJSON)
			}
			if err != nil {
				return at.explain(err)
			}
			switch {
			case asJSON:
				return writeJSON(cmd.OutOrStdout(), status)
			case len(args) > 0:
				return writeServices(cmd.Context(), at, cmd.OutOrStdout(), status)
			default:
				var table strings.Builder
				if err := writeStatus(&table, status, cpuTime, time.Now()); err != nil {
					return err
				}
				_, err := io.WriteString(cmd.OutOrStdout(), fit(cmd.OutOrStdout(), table.String()))
				return err
			}
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show it again and again")
	return cmd
}

// statusOf asks for the state of the host and of the services that are named,
// or of all.
func statusOf(ctx context.Context, client *control.Client, names []string) (control.Status, error) {
	status, err := client.Usage(ctx)
	if err != nil || len(names) == 0 {
		return status, err
	}
	wanted, err := findAll(refsOf(status), names)
	if err != nil {
		return status, err
	}
	status.Services = slices.DeleteFunc(status.Services, func(s control.ServiceStatus) bool { return !slices.Contains(wanted, s.Service) })
	return status, nil
}

// refsOf are the services of a status.
func refsOf(status control.Status) []config.Ref {
	refs := make([]config.Ref, len(status.Services))
	for i, service := range status.Services {
		refs[i] = service.Service
	}
	return refs
}

// writeStatus writes a table for people. cpu says what is in its column CPU.
func writeStatus(w io.Writer, status control.Status, cpu func(control.ServiceStatus) string, now time.Time) error {
	fmt.Fprintf(w, "plughost %s, pid %d, up %s, gateway %s\n\n",
		status.Version, status.PID, age(now.Sub(status.Started)), status.Gateway)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "KIND\tSERVICE\tSTATE\tSINCE\tPID\tPORT\tRESTARTS\tMEMORY\tCPU\tLAST ERROR")
	for _, s := range status.Services {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", s.Service.Kind, s.Service.Name, s.State, age(now.Sub(s.Since)),
			number(s.PID), number(s.Port), s.Restarts, memory(s), cpu(s), trouble(s))
	}
	return table.Flush()
}

// trouble is why a service does not do what it should, in one line.
func trouble(s control.ServiceStatus) string {
	text := s.LastError
	if text == "" && s.State == supervise.Waiting {
		text = s.Cause
	}
	if text == "" {
		return "-"
	}
	return oneLine(text)
}

func memory(s control.ServiceStatus) string {
	if s.Usage == nil {
		return "-"
	}
	return size(s.Usage.MemoryBytes)
}

// cpuTime is the processors' time that a service used.
func cpuTime(s control.ServiceStatus) string {
	if s.Usage == nil {
		return "-"
	}
	return (time.Duration(s.Usage.CPUSeconds*1000) * time.Millisecond).Round(10 * time.Millisecond).String()
}

// size is a number of bytes as people read it at a glance.
func size(bytes int64) string {
	const unit = 1024
	value, units := float64(bytes), []string{"B", "KiB", "MiB", "GiB"}
	for value >= unit && len(units) > 1 {
		value, units = value/unit, units[1:]
	}
	if value < 10 && units[0] != "B" {
		return fmt.Sprintf("%.1f %s", value, units[0])
	}
	return fmt.Sprintf("%.0f %s", value, units[0])
}

// watchStatus shows the status until it is interrupted. It goes on while no host
// runs, for the next one.
func watchStatus(ctx context.Context, at *location, w io.Writer, names []string) error {
	client, err := at.client()
	if err != nil {
		return err
	}
	show := func(text string) { fmt.Fprintln(w, text) }
	if f, ok := w.(*os.File); ok && isTerminal(w) {
		show = (&screen{out: f, terminal: f}).show
	}
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	var load load
	for {
		var text strings.Builder
		status, err := statusOf(ctx, client, names)
		switch {
		case errors.Is(err, control.ErrNoHost):
			fmt.Fprintln(&text, at.explain(err))
		case err != nil:
			return at.explain(err)
		default:
			now := time.Now()
			load.look(status, now)
			if err := writeStatus(&text, status, load.share, now); err != nil {
				return err
			}
		}
		show(text.String())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// load tells the share of a processor that services use between two looks.
type load struct {
	at     time.Time
	used   map[string]float64 // by instance
	shares map[string]float64
}

func (l *load) look(status control.Status, now time.Time) {
	used, span := make(map[string]float64), now.Sub(l.at).Seconds()
	l.shares = make(map[string]float64)
	for _, s := range status.Services {
		if s.Usage == nil {
			continue
		}
		used[s.Instance] = s.Usage.CPUSeconds
		if before, ok := l.used[s.Instance]; ok && span > 0 {
			l.shares[s.Instance] = max(0, s.Usage.CPUSeconds-before) / span
		}
	}
	l.at, l.used = now, used
}

func (l *load) share(s control.ServiceStatus) string {
	share, ok := l.shares[s.Instance]
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*share)
}

// writeServices writes all that is known of services.
func writeServices(ctx context.Context, at *location, w io.Writer, status control.Status) error {
	known, err := at.know(ctx)
	if err != nil {
		return err
	}
	for i, s := range status.Services {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s is %s\n\n", s.Service, s.State)
		for _, line := range append(describe(s, time.Now()), known.evidence(s)...) {
			if line[1] != "" {
				fmt.Fprintf(w, "  %-15s  %s\n", line[0], line[1])
			}
		}
	}
	return nil
}

// describe is what a host says of a service, by names; what does not apply is
// empty.
func describe(s control.ServiceStatus, now time.Time) [][2]string {
	text := [][2]string{
		{"since", fmt.Sprintf("%s, for %s", s.Since.Local().Format(time.DateTime), age(now.Sub(s.Since)))},
		{"cause", oneLine(s.Cause)},
		{"instance", s.Instance},
		{"port", numberOrNone(s.Port)},
		{"restarts", strconv.Itoa(s.Restarts)},
		{"failed checks", numberOrNone(s.HealthFailures)},
		{"last error", oneLine(s.LastError)},
	}
	if !s.NextTry.IsZero() {
		text = append(text, [2]string{"next try", "in " + age(s.NextTry.Sub(now))})
	}
	if s.Usage != nil {
		text = append(text,
			[2]string{"memory", memory(s)}, [2]string{"cpu", cpuTime(s)}, [2]string{"processes", strconv.Itoa(s.Usage.Processes)})
	}
	return text
}

func numberOrNone(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// evidence is what proves that a process is the installation's, by names.
func (k knowledge) evidence(s control.ServiceStatus) [][2]string {
	pid := s.PID
	if pid == 0 {
		return nil
	}
	found, err := k.identify(pid)
	if err != nil {
		return [][2]string{{"pid", strconv.Itoa(pid)}, {"proof", err.Error()}}
	}
	command := commandLine(found.Info)
	if s.SecretCommand {
		command = "(sensitive value)"
	}
	proof := verdictText(found.Proof.Verdict)
	if found.Proof.By != "" {
		proof += ", by its " + found.Proof.By
	}
	if found.Proof.Reason != "" {
		proof += ": " + found.Proof.Reason
	}
	return [][2]string{
		{"pid", strconv.Itoa(pid)},
		{"command", command},
		{"user", owner(found.Info.User, found.Info.UID)},
		{"proof", proof},
		{"marker", describeIdentity(found.Proof.Identity, k.installation)},
		{"birth record", fmt.Sprintf("start %d, boot %s", found.Proof.Birth.Start, found.Proof.Birth.BootID)},
	}
}

// leftover is an instance that the registry names while no host runs.
type leftover struct {
	registry.Record
	// Proof says whether its process is there, and the installation's.
	Proof probes.Proof `json:"proof"`
}

// writeRegistry writes what is known without a host, and returns the error that
// there is none.
func writeRegistry(ctx context.Context, at *location, w io.Writer, asJSON bool) error {
	known, err := at.know(ctx)
	if err != nil {
		return err
	}
	instances := []leftover{}
	for _, record := range known.records {
		left := leftover{Record: record, Proof: probes.Proof{Verdict: probes.NotOurs, Reason: "it is gone"}}
		if found, err := known.identify(record.PID); err == nil && found.Info.State != probes.Zombie {
			left.Proof = found.Proof
		}
		instances = append(instances, left)
	}
	if asJSON {
		err = writeJSON(w, struct {
			Running      bool       `json:"running"`
			Installation string     `json:"installation"`
			Instances    []leftover `json:"instances"`
		}{false, known.installation, instances})
	} else {
		err = writeLeftovers(w, instances)
	}
	return errors.Join(err, at.explain(control.ErrNoHost))
}

func writeLeftovers(w io.Writer, instances []leftover) error {
	if len(instances) == 0 {
		_, err := fmt.Fprintln(w, "The registry names no instance: nothing was left by the last host.")
		return err
	}
	fmt.Fprint(w, "The registry names what the last host launched and did not end:\n\n")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "KIND\tSERVICE\tPID\tPORT\tLAUNCHED\tPROCESS")
	for _, left := range instances {
		process := verdictText(left.Proof.Verdict)
		if left.Proof.Reason != "" {
			process += ": " + left.Proof.Reason
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", left.Identity.Kind, left.Identity.Service, number(left.PID), number(left.Port),
			left.Intended.Local().Format(time.DateTime), oneLine(process))
	}
	return table.Flush()
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
