package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/plughost/plughost/host/internal/cgroup"
	"github.com/plughost/plughost/host/internal/control"
	"github.com/plughost/plughost/host/internal/installation"
	"github.com/plughost/plughost/host/internal/logs"
	"github.com/plughost/plughost/host/internal/reclaim"
	"github.com/plughost/plughost/host/internal/registry"
	"github.com/plughost/plughost/probes"
	"github.com/plughost/plughost/shared/marker"
)

func newOrphansCommand(at *location) *cobra.Command {
	var all, reclaimThem, asJSON bool
	cmd := &cobra.Command{
		Use:   "orphans",
		Short: "List processes whose host is gone, and reclaim them",
		Long: `List the processes of this installation whose host is gone. A host reclaims
them by itself when it starts; with --reclaim they are ended now.

With --all those of every installation on this machine are listed; they are
not touched.`,
		Example: "  plughost orphans\n  plughost orphans --reclaim\n  plughost orphans --all --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case all && reclaimThem:
				return usageError{errors.New("--all only looks: what belongs to another installation is reclaimed with --reclaim and its --state-dir")}
			case reclaimThem:
				return reclaimOrphans(cmd.Context(), at, cmd.OutOrStdout(), asJSON)
			}
			orphans, err := findOrphans(cmd.Context(), at, all)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), orphans)
			}
			return writeOrphans(cmd.OutOrStdout(), orphans, all)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "list those of every installation")
	cmd.Flags().BoolVar(&reclaimThem, "reclaim", false, "end those of this installation")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// findOrphans returns the marked processes that no running host has: of this
// installation, or of all.
func findOrphans(ctx context.Context, at *location, all bool) ([]probes.Found, error) {
	known, err := at.know(ctx)
	if err != nil {
		return nil, err
	}
	found, err := probes.ListAll(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot list processes: %w", err)
	}
	hosted := make(map[string]bool) // installations with a host that runs
	for _, f := range found {
		if f.Identity.Kind == marker.KindHost {
			hosted[f.Identity.Installation] = true
		}
	}
	orphans := []probes.Found{}
	for _, f := range found {
		own := f.Identity.Installation == known.installation
		switch {
		case f.Identity.Kind == marker.KindHost, !own && !all:
			continue
		case own && known.running:
			if known.live(f.Identity.Instance) {
				continue
			}
		case hosted[f.Identity.Installation]:
			// Its host knows which of these are orphans.
			continue
		}
		orphans = append(orphans, f)
	}
	if !all {
		orphans = append(orphans, known.unmarkedOrphans(orphans)...)
	}
	return orphans, nil
}

// unmarkedOrphans are the processes that only their record proves: their
// environment was overwritten, or is withheld.
func (k knowledge) unmarkedOrphans(marked []probes.Found) []probes.Found {
	if k.running {
		return nil
	}
	var orphans []probes.Found
	for _, record := range k.records {
		if record.PID == 0 || slices.ContainsFunc(marked, func(f probes.Found) bool { return f.PID == record.PID }) {
			continue
		}
		process, err := probes.Open(record.PID)
		if err != nil {
			continue
		}
		proof := k.prove(process)
		info, infoErr := process.Info()
		_ = process.Close()
		if proof.Verdict != probes.Ours || infoErr != nil || info.State == probes.Zombie {
			continue
		}
		orphans = append(orphans, probes.Found{
			PID: record.PID, PPID: info.PPID, PGID: info.PGID, Identity: record.Identity,
			Birth: proof.Birth, State: info.State, UID: info.UID, Command: info.Command,
		})
	}
	return orphans
}

func writeOrphans(w io.Writer, orphans []probes.Found, all bool) error {
	if len(orphans) == 0 {
		fmt.Fprintln(w, "There are no orphans.")
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	header := "PID\tKIND\tSERVICE\tCOMMAND\tINSTANCE"
	if all {
		header += "\tINSTALLATION"
	}
	fmt.Fprintln(table, header)
	for _, f := range orphans {
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s", f.PID, f.Identity.Kind, f.Identity.Service, logs.Printable(f.Command), f.Identity.Instance)
		if all {
			fmt.Fprintf(table, "\t%s", f.Identity.Installation)
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}

// reclaimOrphans ends the orphans of this installation. A running host does it
// itself, since only it knows for certain which instances are its own; without
// one it is done under the installation's lock.
func reclaimOrphans(ctx context.Context, at *location, w io.Writer, asJSON bool) error {
	paths, err := at.installation()
	if err != nil {
		return err
	}
	report, err := newClient(paths).Reclaim(ctx)
	if errors.Is(err, control.ErrNoHost) {
		report, err = reclaimWithoutHost(ctx, paths.Dir)
	}
	if err != nil {
		return at.explain(err)
	}
	if asJSON {
		err = writeJSON(w, report)
	} else {
		writeReclaimed(w, report)
	}
	if err == nil && len(report.Failures) > 0 {
		return errReported
	}
	return err
}

func reclaimWithoutHost(ctx context.Context, dir string) (control.Reclaimed, error) {
	inst, err := installation.Open(dir)
	if err != nil {
		return control.Reclaimed{}, err
	}
	defer inst.Close()
	reg, movedTo, why, err := registry.Open(inst.Registry())
	if err != nil {
		return control.Reclaimed{}, err
	}
	defer reg.Close()
	groups, _ := cgroup.Open(inst.ID) // else there are none
	reclaimer := &reclaim.Reclaimer{
		Installation: inst.ID,
		Registry:     reg,
		Grace:        defaultGrace,
		Live:         func(string) bool { return false },
		Groups:       groups,
		Log:          hclog.NewNullLogger(),
	}
	report, err := reclaimer.Run(ctx)
	reclaimed := control.NewReclaimed(report)
	if why != nil {
		reclaimed.Failures = append(reclaimed.Failures, fmt.Sprintf("the registry could not be read and was moved to %s: %v", movedTo, why))
	}
	return reclaimed, err
}

func writeReclaimed(w io.Writer, r control.Reclaimed) {
	for _, s := range r.Stopped {
		fmt.Fprintf(w, "Ended %s.%s, instance %s: %s.\n", s.Kind, s.Service, s.Instance, count(s.Processes, "process"))
	}
	for _, g := range r.Groups {
		fmt.Fprintf(w, "Ended what was left in the control group of instance %s: %s.\n", g.Instance, count(g.Processes, "process"))
	}
	for _, u := range r.Unknown {
		fmt.Fprintf(w, "Left process %d of %s.%s alone: it could not be identified: %s.\n", u.PID, u.Kind, u.Service, u.Reason)
	}
	for _, failure := range r.Failures {
		fmt.Fprintf(w, "Failed: %s.\n", failure)
	}
	if len(r.Stopped)+len(r.Groups)+len(r.Unknown)+len(r.Failures) == 0 {
		fmt.Fprintln(w, "There was nothing to reclaim.")
	}
}
