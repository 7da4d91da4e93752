package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/control"
	"github.com/plughost/plughost/host/internal/supervise"
)

// newVerbCommand makes the command of a verb that the control API has for
// services.
func newVerbCommand(at *location, verb control.Verb, short string) *cobra.Command {
	var noWait bool
	cmd := &cobra.Command{
		Use:   string(verb) + " SERVICE...",
		Short: short,
		Long: short + `. It returns when that is done, and fails
if it cannot be; with --no-wait it is only asked for.`,
		Example:           fmt.Sprintf("  plughost %[1]s clock\n  plughost %[1]s agent.assistant", verb),
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: at.completeServices,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := at.client()
			if err != nil {
				return err
			}
			refs, err := resolve(cmd.Context(), client, args)
			if err != nil {
				return at.explain(err)
			}
			for _, ref := range refs {
				if noWait {
					err = request(cmd.Context(), client, cmd.OutOrStdout(), ref, verb)
				} else {
					err = carryOut(cmd.Context(), client, cmd.OutOrStdout(), ref, verb)
				}
				if err != nil {
					return at.explain(err)
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return at once")
	return cmd
}

// request asks for a verb, and says so.
func request(ctx context.Context, client *control.Client, w io.Writer, ref config.Ref, verb control.Verb) error {
	if err := client.Request(ctx, ref, verb); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "Asked to %s %s.\n", verb, ref)
	return err
}

// carryOut asks for a verb, shows how it goes on, and says what became of it.
func carryOut(ctx context.Context, client *control.Client, w io.Writer, ref config.Ref, verb control.Verb) error {
	before, err := look(ctx, client, ref)
	if err != nil {
		return err
	}
	began := time.Now()
	watched, endWatch := context.WithCancel(ctx)
	var watching sync.WaitGroup
	if isTerminal(os.Stderr) {
		watching.Go(func() { watchProgress(watched, client, ref, began) })
	}
	err = client.Do(ctx, ref, verb)
	endWatch()
	watching.Wait()
	if err != nil {
		return err
	}
	after, err := look(ctx, client, ref)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s.\n", outcome(verb, before, after, time.Since(began)))
	return err
}

// look asks for the state of one service.
func look(ctx context.Context, client *control.Client, ref config.Ref) (control.ServiceStatus, error) {
	status, err := client.Status(ctx)
	if err != nil {
		return control.ServiceStatus{}, err
	}
	for _, service := range status.Services {
		if service.Service == ref {
			return service, nil
		}
	}
	return control.ServiceStatus{}, &supervise.UnknownServiceError{Ref: ref}
}

// progressTick is how often the progress of a verb is shown anew.
const progressTick = 250 * time.Millisecond

// watchProgress shows on the terminal how a service is until ctx ends, and
// leaves nothing there.
func watchProgress(ctx context.Context, client *control.Client, ref config.Ref, began time.Time) {
	progress := &screen{out: os.Stderr, terminal: os.Stderr}
	defer progress.show("")
	tick := time.NewTicker(progressTick)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if service, err := look(ctx, client, ref); err == nil {
			progress.show(fmt.Sprintf("%s is %s, for %s: %s\n", ref, service.State, tenths(time.Since(began)), oneLine(service.Cause)))
		}
	}
}

// outcome says what became of a verb that was carried out.
func outcome(verb control.Verb, before, after control.ServiceStatus, took time.Duration) string {
	ref := after.Service
	switch {
	case verb == control.Stop && before.Instance == "":
		return fmt.Sprintf("%s was not running", ref)
	case verb == control.Stop:
		return fmt.Sprintf("Stopped %s: nothing of it is left, after %s", ref, tenths(took))
	case before.Instance == after.Instance:
		return fmt.Sprintf("%s is running already: it is %s, pid %d", ref, after.State, after.PID)
	case verb == control.Restart && before.Instance != "":
		return fmt.Sprintf("Restarted %s: pid %d instead of %d, ready after %s", ref, after.PID, before.PID, tenths(took))
	default:
		return fmt.Sprintf("Started %s: pid %d, ready after %s", ref, after.PID, tenths(took))
	}
}

// tenths is a short span of time as people read it.
func tenths(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// resolve finds the services that a person names: by name, or by kind and name
// as in agent.assistant.
func resolve(ctx context.Context, client *control.Client, names []string) ([]config.Ref, error) {
	known, err := known(ctx, client)
	if err != nil {
		return nil, err
	}
	refs := make([]config.Ref, len(names))
	for i, name := range names {
		if refs[i], err = find(known, name); err != nil {
			return nil, err
		}
	}
	return refs, nil
}

// known are the services of the running host.
func known(ctx context.Context, client *control.Client) ([]config.Ref, error) {
	status, err := client.Status(ctx)
	if err != nil {
		return nil, err
	}
	return refsOf(status), nil
}

func find(known []config.Ref, name string) (config.Ref, error) {
	var found []config.Ref
	all := make([]string, len(known))
	for i, ref := range known {
		all[i] = ref.String()
		if ref.Name == name || ref.String() == name {
			found = append(found, ref)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return config.Ref{}, fmt.Errorf("there is no service %q: there are %s", name, strings.Join(all, ", "))
	default:
		return config.Ref{}, fmt.Errorf("%q names %s and %s: say which", name, found[0], found[1])
	}
}
