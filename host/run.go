package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/installation"
	"github.com/plughost/plughost/host/internal/launch"
)

func newRunCommand(at *location) *cobra.Command {
	var in config.Input
	var outliveHost bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the host in the foreground",
		Long: `Run the host in the foreground until it gets SIGTERM or SIGINT. It then stops
all services, dependants first; a second signal takes the grace from them. With
SIGHUP it reads its configuration again, as with plughost reload; but if its
terminal was closed it ends.

Services with on_host_exit = "keep" go on upon SIGTERM, and the next run takes
them over. SIGINT (Ctrl-C) stops these, too, and so does closing the terminal.`,
		Example: "  plughost run --config services.hcl",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := requireInput(cmd); err != nil {
				return err
			}
			return run(cmd.Context(), at, in, outliveHost)
		},
	}
	addInputFlags(cmd, &in)
	cmd.Flags().BoolVar(&outliveHost, "test-outlive-host", false, "for tests: let children outlive a host that dies")
	_ = cmd.Flags().MarkHidden("test-outlive-host")
	return cmd
}

func run(ctx context.Context, at *location, in config.Input, outliveHost bool) error {
	conf, _, err := loadConfig(in)
	if err != nil {
		return err
	}
	if err := launch.SealDescriptors(); err != nil {
		return err
	}
	inst, err := installation.Open(at.dir(conf.Host.StateDir))
	if err != nil {
		return err
	}
	out := newOutput()
	defer out.end()
	log := hclog.New(&hclog.LoggerOptions{
		Level:      hclog.LevelFromString(conf.Host.LogLevel),
		Output:     out.log,
		TimeFormat: "2006-01-02T15:04:05.000Z07:00",
	})
	switch outcome, err := stamp(inst.ID); outcome {
	case stampUnverified:
		log.Debug("running without a marker", "reason", err)
	case stampDone:
	}
	stop, hurry, hangups := watchSignals(log, out)
	stop, ended := underServiceManager(stop, log)
	defer ended()
	host, err := newHost(conf, inst, log, outliveHost)
	if err != nil {
		return fmt.Errorf("cannot start the host: %w", err)
	}
	// Not before the stamp, which may have this read again.
	diags := host.plugins.check(stop, conf)
	if err := writeDiagnostics(os.Stderr, diags); err != nil {
		return err
	}
	if diags.HasErrors() {
		return errReported
	}
	host.hangups, host.output = hangups, out
	if host.input, err = absolute(in); err != nil {
		return fmt.Errorf("cannot start the host: %w", err)
	}
	return host.run(ctx, stop, hurry)
}

// signalError is the cause of the end of the context that a signal ends.
type signalError struct{ signal os.Signal }

func (e *signalError) Error() string { return "the host got the signal " + e.signal.String() }

// keepsServices reports whether what ended the host leaves services running
// that are to outlive it: a service manager's SIGTERM does, for the next host
// to take them over, and a person's Ctrl-C does not.
func keepsServices(stop context.Context) bool {
	var by *signalError
	return errors.As(context.Cause(stop), &by) && by.signal == syscall.SIGTERM
}

// watchSignals returns two contexts: the first ends with the first SIGTERM or
// SIGINT, or when the terminal is closed, the second with the second. Each other
// SIGHUP is in hangups, unless one that came before is still there.
func watchSignals(log hclog.Logger, out output) (stop, hurry context.Context, hangups <-chan struct{}) {
	hangup := make(chan struct{}, 1)
	stop, endStop := context.WithCancelCause(context.Background())
	hurry, endHurry := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for sig := range signals {
			switch {
			case sig == syscall.SIGHUP && !out.terminalGone():
				select {
				case hangup <- struct{}{}:
				default:
				}
			case stop.Err() == nil:
				out.say(log, hclog.Info, "stopping the services; signal again to give them no more time", sig)
				endStop(&signalError{sig})
			default:
				out.say(log, hclog.Warn, "ending all services now", sig)
				endHurry()
			}
		}
	}()
	// A reader of our standard error that goes away must not end the host. A
	// handler, unlike an ignored signal, is not inherited by children.
	signal.Notify(make(chan os.Signal, 1), brokenPipe)
	return stop, hurry, hangup
}
