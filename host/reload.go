package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/control"
	"github.com/plughost/plughost/host/internal/supervise"
)

// reloader has a running host follow its configuration. It implements
// control.Configuration.
type reloader struct {
	*host
	stop context.Context // ends when the host is to

	// one at a time, from the reading of the files until the manager has taken
	// what they say: the files that were read last are what holds.
	one sync.Mutex
}

// Reload implements control.Configuration.
func (r *reloader) Reload(ctx context.Context, terminal control.Terminal) (control.Plan, error) {
	plan, applied, err := r.take(terminal)
	if err != nil {
		return control.Plan{}, err
	}
	if err := applied.Wait(ctx); err != nil {
		return control.Plan{}, err
	}
	plan.Services = applied.Steps
	return plan, nil
}

// Plan implements control.Configuration.
func (r *reloader) Plan(ctx context.Context, in config.Input, terminal control.Terminal) (control.Plan, error) {
	if len(in.Paths) == 0 {
		in.Paths = r.input.Paths
		in.Vars = slices.Concat(r.input.Vars, in.Vars)
		in.VarFiles = slices.Concat(r.input.VarFiles, in.VarFiles)
	}
	conf, plan, err := r.read(in, terminal)
	if err != nil {
		return control.Plan{}, err
	}
	update, err := r.update(conf)
	if err != nil {
		return control.Plan{}, err
	}
	plan.Services, err = r.manager.Plan(ctx, update)
	return plan, err
}

// take reads the configuration and begins to change what runs. It does so whole
// or not at all, so whoever asked has no say in it any more.
func (r *reloader) take(terminal control.Terminal) (plan control.Plan, applied *supervise.Applied, err error) {
	r.one.Lock()
	defer r.one.Unlock()
	if r.stop.Err() != nil {
		return control.Plan{}, nil, supervise.ErrShuttingDown
	}
	r.systemd.reloading()
	defer func() { r.systemd.reloaded(err, r.manager.Statuses()) }()
	conf, plan, err := r.read(r.input, terminal)
	var refused *control.RefusedError
	if errors.As(err, &refused) {
		refused.Message += ": nothing was changed"
	}
	if err != nil {
		return control.Plan{}, nil, err
	}
	update, err := r.update(conf)
	if err != nil {
		return control.Plan{}, nil, err
	}
	update.Taken = func() { r.configure(conf) }
	applied, err = r.manager.Apply(context.Background(), update)
	if err != nil {
		return control.Plan{}, nil, err
	}
	r.news.reloaded(len(conf.Services), changes(applied.Steps))
	for _, setting := range plan.HostRestart {
		r.log.Warn("a changed setting takes effect when the host is started again", "setting", "host."+setting)
	}
	return plan, applied, nil
}

// changes counts the steps that change something.
func changes(steps []supervise.Step) int {
	n := 0
	for _, step := range steps {
		if step.Action != supervise.Keep {
			n++
		}
	}
	return n
}

// read reads a configuration, and says what of the host's own settings it
// changes.
func (r *reloader) read(in config.Input, terminal control.Terminal) (*config.Config, control.Plan, error) {
	conf, diags := in.Load()
	if conf != nil {
		diags = r.plugins.check(r.stop, conf)
	}
	var text strings.Builder
	if err := config.WriteDiagnostics(&text, diags, terminal.Color, terminal.Width); err != nil {
		return nil, control.Plan{}, err
	}
	if diags.HasErrors() {
		return nil, control.Plan{}, &control.RefusedError{Message: messageRefused, Diagnostics: text.String()}
	}
	return conf, control.Plan{
		HostUpdates: config.CompareHost(r.current().Host, conf.Host).InPlace,
		// What could not be changed before has not changed yet.
		HostRestart: config.CompareHost(r.conf.Host, conf.Host).Restart,
		Diagnostics: text.String(),
	}, nil
}

const messageRefused = "the configuration has errors"

// update is a configuration as the manager takes it.
func (r *reloader) update(conf *config.Config) (supervise.Update, error) {
	records, err := r.registry.All()
	if err != nil {
		return supervise.Update{}, err
	}
	stale := make(map[string]bool)
	for _, record := range records {
		service, ok := conf.Service(serviceOf(record.Identity))
		if !ok || record.Binary == "" {
			continue
		}
		path, err := executable(service)
		if err != nil || path != record.Path {
			continue
		}
		// An executable that cannot be read says nothing.
		if sum, err := r.launcher.Binaries.SHA256(path); err == nil && sum != record.Binary {
			stale[record.Identity.Instance] = true
		}
	}
	return supervise.Update{Services: conf.Services, StartLimit: conf.Host.StartLimit, Stale: stale}, nil
}

// configure has all but the manager follow a configuration that it has taken.
func (r *reloader) configure(conf *config.Config) {
	r.now.Store(conf)
	r.log.SetLevel(hclog.LevelFromString(conf.Host.LogLevel))
	r.journal.configure(conf.Services)
	r.readiness.configure(conf.Services)
	r.gateway.Configure(conf.Services)
	r.gateway.SetURL(conf.Host.Gateway.URL)
	r.gateway.LimitRequests(conf.Host.Gateway.Limits.Requests)
	r.gateway.Grant(r.guard.Configure(conf))
}

// onHangup reloads with each SIGHUP, until the host is to end. What becomes of
// the services is in the log as always.
func (r *reloader) onHangup() {
	for {
		select {
		case <-r.hangups:
		case <-r.stop.Done():
			return
		}
		_, _, err := r.take(terminalOf(os.Stderr))
		var refused *control.RefusedError
		if errors.As(err, &refused) {
			fmt.Fprint(r.output.log, refused.Diagnostics)
		}
		if err != nil {
			r.log.Error("cannot reload the configuration", "error", err)
		}
	}
}

func newReloadCommand(at *location) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Have the host read its configuration again, and change only what differs",
		Long: `Have the running host read its configuration again, from the files that it was
started with, and change what runs to be as they say: services that did not
change keep their processes, new ones are started, and those that are gone or
changed are stopped or replaced. It returns when all that is done.

A configuration with a fault changes nothing. SIGHUP to the host does the same.
plughost plan shows beforehand what would be done.`,
		Example: "  plughost reload",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := at.client()
			if err != nil {
				return err
			}
			done, err := client.Reload(cmd.Context(), terminalOf(os.Stderr))
			if err != nil {
				return at.explain(reportRefused(err))
			}
			if err := warn(done); err != nil {
				return err
			}
			if asJSON {
				err = writeJSON(cmd.OutOrStdout(), done)
			} else {
				err = writeReloaded(cmd.OutOrStdout(), done)
			}
			if err != nil {
				return err
			}
			return failures(done)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// reportRefused shows the faults of a refused configuration, as validate does.
func reportRefused(err error) error {
	var refused *control.RefusedError
	if errors.As(err, &refused) {
		if _, writeErr := fmt.Fprint(os.Stderr, refused.Diagnostics); writeErr != nil {
			return writeErr
		}
	}
	return err
}

// warn writes what is not done, or may be a mistake.
func warn(plan control.Plan) error {
	if _, err := fmt.Fprint(os.Stderr, plan.Diagnostics); err != nil {
		return err
	}
	for _, setting := range plan.HostRestart {
		fmt.Fprintf(os.Stderr, "Warning: host.%s was changed; it takes effect when the host is started again.\n", setting)
	}
	return nil
}

// doneWords say what was done, or could not be.
var doneWords = map[supervise.Action][2]string{
	supervise.StartIt:       {"Started", "start"},
	supervise.Replace:       {"Restarted", "restart"},
	supervise.Drop:          {"Stopped", "stop"},
	supervise.ChangeInPlace: {"Updated", "update"},
}

func writeReloaded(w io.Writer, done control.Plan) error {
	kept := 0
	for _, step := range done.Services {
		words, changed := doneWords[step.Action]
		switch {
		case !changed:
			kept++
		case step.Error != "":
			fmt.Fprintf(w, "Cannot %s %s%s.\n", words[1], step.Service, because(step))
		default:
			fmt.Fprintf(w, "%s %s%s.\n", words[0], step.Service, because(step))
		}
	}
	for _, setting := range done.HostUpdates {
		fmt.Fprintf(w, "Updated host.%s.\n", setting)
	}
	_, err := fmt.Fprintf(w, "%s kept as they are.\n", count(kept, "service"))
	return err
}

func because(step supervise.Step) string { return inParentheses(strings.Join(step.Because, ", ")) }

// failures are the errors of the steps that failed.
func failures(done control.Plan) error {
	var errs []error
	for _, step := range done.Services {
		if step.Error != "" {
			errs = append(errs, errors.New(step.Error))
		}
	}
	return errors.Join(errs...)
}
