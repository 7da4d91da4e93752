package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/control"
	"github.com/plughost/plughost/host/internal/installation"
	"github.com/plughost/plughost/host/internal/supervise"
)

// exitChanges is plan's exit status if there is something to change and
// --detailed-exitcode was given; Terraform has the same.
const exitChanges = 2

// planned is what plan finds.
type planned struct {
	// Running says whether a host runs; if not, every service is started.
	Running bool `json:"running"`
	control.Plan
}

func newPlanCommand(at *location) *cobra.Command {
	var in config.Input
	var asJSON, detailed bool
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what a reload would change, and change nothing",
		Long: `Compare a configuration with what runs now, and say for each service whether a
reload would start it, restart it, stop it, update it in place or keep it, and
because of which attributes. A service whose executable is another than the one
that it runs is restarted because of its binary. Nothing is changed.

Without --config the files and the values of variables are those that the running
host was started with; --var and --var-file add to them. References to the
environment are to that of the host.

Exit status: 0 done, 1 failed; with --detailed-exitcode 0 nothing to change,
1 failed, 2 something to change.`,
		Example: "  plughost plan\n  plughost plan --config services.hcl --detailed-exitcode",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			plan, err := makePlan(cmd, at, in)
			if err != nil {
				return reportRefused(err)
			}
			if err := warn(plan.Plan); err != nil {
				return err
			}
			if asJSON {
				err = writeJSON(cmd.OutOrStdout(), plan)
			} else {
				err = writePlan(cmd.OutOrStdout(), plan)
			}
			if err == nil && detailed && plan.Changes() {
				return exitError(exitChanges)
			}
			return err
		},
	}
	addInputFlags(cmd, &in)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&detailed, "detailed-exitcode", false, "exit with status 2 if there is something to change")
	return cmd
}

// makePlan asks the running host, which knows what its services were started
// with, and whose environment and PATH count. If none runs, all is to start.
func makePlan(cmd *cobra.Command, at *location, in config.Input) (planned, error) {
	ctx := cmd.Context()
	remote, err := absolute(in)
	if err != nil {
		return planned{}, err
	}
	if !inputGiven(cmd) {
		plan, err := planOfHost(ctx, at.dir(""), config.Input{Vars: remote.Vars, VarFiles: remote.VarFiles})
		if err == nil {
			return planned{Running: true, Plan: plan}, nil
		}
		if !errors.Is(err, control.ErrNoHost) {
			return planned{}, err
		}
		if missing := requireInput(cmd); missing != nil {
			return planned{}, fmt.Errorf("no host is running on %s, and %w", at.dir(""), missing)
		}
	}
	conf, diags := in.Load()
	stateDir := ""
	if conf != nil {
		stateDir = conf.Host.StateDir
	}
	plan, err := planOfHost(ctx, at.dir(stateDir), remote)
	switch {
	case err == nil:
		return planned{Running: true, Plan: plan}, nil
	case !errors.Is(err, control.ErrNoHost):
		return planned{}, err
	}
	if err := writeDiagnostics(os.Stderr, diags); err != nil {
		return planned{}, err
	}
	if conf == nil {
		return planned{}, errReported
	}
	for _, service := range conf.Services {
		plan.Services = append(plan.Services, supervise.Step{Service: service.Ref(), Action: supervise.StartIt})
	}
	return planned{Plan: plan}, nil
}

// planOfHost asks the host of a state directory. That there is no such
// directory is control.ErrNoHost too.
func planOfHost(ctx context.Context, stateDir string, in config.Input) (control.Plan, error) {
	found, err := installation.Find(stateDir)
	var missing *installation.NotFoundError
	if errors.As(err, &missing) {
		return control.Plan{}, fmt.Errorf("%w: %w", control.ErrNoHost, err)
	}
	if err != nil {
		return control.Plan{}, err
	}
	return newClient(found).Plan(ctx, in, terminalOf(os.Stderr))
}

// planWord is the mark of an action, and what it is called.
type planWord struct {
	action supervise.Action
	mark   string
	color  int // an SGR parameter, or 0
	words  string
	counts string
}

// planWords are in the order in which people read what is counted.
var planWords = []planWord{
	{supervise.StartIt, "+", sgrGreen, "would be started", "to start"},
	{supervise.Replace, "-/+", sgrYellow, "would be restarted", "to restart"},
	{supervise.Drop, "-", sgrRed, "would be stopped", "to stop"},
	{supervise.ChangeInPlace, "~", sgrYellow, "would be updated in place", "to update in place"},
	{supervise.Keep, "", 0, "stays as it is", "to keep"},
}

func writePlan(w io.Writer, plan planned) error {
	if !plan.Running {
		fmt.Fprint(w, "No host is running: all services would be started.\n\n")
	}
	counts := make(map[supervise.Action]int)
	for _, step := range plan.Services {
		counts[step.Action]++
		writeStep(w, step, colored(w))
	}
	for _, setting := range plan.HostUpdates {
		fmt.Fprintf(w, "  %-3s host.%s would be updated in place\n", "~", setting)
	}
	if !plan.Changes() {
		_, err := fmt.Fprintln(w, "\nThere is nothing to change.")
		return err
	}
	var parts []string
	for _, words := range planWords {
		if n := counts[words.action]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, words.counts))
		}
	}
	_, err := fmt.Fprintf(w, "\nPlan: %s.\n", strings.Join(parts, ", "))
	return err
}

// writeStep writes what would be done to a service, and below it because of
// what.
func writeStep(w io.Writer, step supervise.Step, color bool) {
	i := slices.IndexFunc(planWords, func(p planWord) bool { return p.action == step.Action })
	words := planWords[i]
	mark := fmt.Sprintf("%-3s", words.mark)
	if color && words.color != 0 {
		mark = paint(words.color, mark)
	}
	fmt.Fprintf(w, "  %s %s %s%s\n", mark, step.Service, words.words, inParentheses(standing(step)))
	for _, attribute := range step.Because {
		forces := ""
		if slices.Contains(step.Forces, attribute) {
			forces = " # forces a restart"
		}
		fmt.Fprintf(w, "        %s%s%s\n", attribute, change(step, attribute), forces)
	}
}

// change says what an attribute was and would be, if it can be shown.
func change(step supervise.Step, attribute string) string {
	i := slices.IndexFunc(step.Changes, func(c config.Change) bool { return c.Name == attribute })
	if i < 0 {
		return ""
	}
	return fmt.Sprintf(": %s -> %s", step.Changes[i].Before, step.Changes[i].After)
}

// standing says how the service is now.
func standing(step supervise.Step) string {
	switch {
	case step.PID != 0 && (step.Action == supervise.Keep || step.Action == supervise.ChangeInPlace):
		return fmt.Sprintf("%s, keeps pid %d", step.State, step.PID)
	case step.PID != 0:
		return fmt.Sprintf("%s, pid %d ends", step.State, step.PID)
	default:
		return string(step.State)
	}
}
