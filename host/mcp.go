package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/control"
	"github.com/plughost/plughost/host/internal/installation"
	"github.com/plughost/plughost/host/internal/stdio"
	"github.com/plughost/plughost/host/internal/supervise"
)

const (
	// hostPatience is how long a host may be away that ended, or is being
	// started.
	hostPatience = 30 * time.Second
	// servicePatience is how long services may take to be ready before the
	// gateway is asked all the same.
	servicePatience = 30 * time.Second
	// lookAgain is between two looks at what nothing announces.
	lookAgain = 100 * time.Millisecond
)

func newMCPCommand(at *location) *cobra.Command {
	var service string
	var start bool
	var in config.Input
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve MCP on standard input and output, for desktop clients",
		Long: `Serve on standard input and output what the running host serves on HTTP: all
MCP services in one, or with --service one of them under its own names. It is
what desktop clients start. It takes no token: it is for who runs the host.

With --start a host is started in the background if none runs, with the
configuration that --config names. It goes on when the client ends, and logs to
host.log in the state directory. Any number of clients may do so at once: there
will be one host.

It lives through restarts of the host: the session is opened again, and calls
that were in flight fail.`,
		Example: `  plughost mcp
  plughost mcp --service clock
  plughost mcp --start --config ~/services.hcl`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if inputGiven(cmd) && !start {
				return usageError{errors.New("--config is for the host that --start starts: add --start, or leave it out")}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			a := &attachment{at: at, service: service}
			if start {
				if err := requireInput(cmd); err != nil {
					return err
				}
				var err error
				if a.starter, err = newStarter(at, in); err != nil {
					return err
				}
			}
			client, err := a.first(ctx)
			if err != nil {
				return err
			}
			http, base := client.Gateway()
			path := "/mcp"
			if service != "" {
				path += "/" + service
			}
			relay := &stdio.Relay{Endpoint: base + path, HTTP: http, Await: a.await, Warn: warnf}
			if err := relay.Run(ctx, os.Stdin, os.Stdout); err != nil && ctx.Err() == nil {
				return err
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&service, "service", "", "serve this MCP service, and not all of them")
	cmd.Flags().BoolVar(&start, "start", false, "start a host in the background if none runs")
	addInputFlags(cmd, &in)
	return cmd
}

func warnf(format string, args ...any) { fmt.Fprintf(os.Stderr, "plughost: "+format+"\n", args...) }

// attachment finds the host that a client on standard input and output is for.
type attachment struct {
	at      *location
	service string   // or empty for all
	starter *starter // nil if none is to be started
}

// first finds a host at the beginning, when there should be one.
func (a *attachment) first(ctx context.Context) (*control.Client, error) {
	client, _, err := a.look(ctx)
	if a.absent(err) && a.starter != nil {
		if err = a.starter.start(ctx); err == nil {
			client, _, err = a.look(ctx)
		}
	}
	if err != nil {
		return nil, a.at.explain(err)
	}
	return client, a.await(ctx)
}

func (a *attachment) look(ctx context.Context) (*control.Client, control.Status, error) {
	client, err := a.at.client()
	if err != nil {
		return nil, control.Status{}, err
	}
	status, err := client.Status(ctx)
	return client, status, err
}

// absent reports whether an error says that there is no host.
func (*attachment) absent(err error) bool {
	var missing *installation.NotFoundError
	return errors.Is(err, control.ErrNoHost) || errors.As(err, &missing)
}

// await returns when there is a host whose services can be called, or says why
// there is none. A host that ended has some time to be there again.
func (a *attachment) await(ctx context.Context) error {
	host, cancel := context.WithTimeout(ctx, hostPatience)
	defer cancel()
	services, cancelServices := context.WithTimeout(ctx, servicePatience)
	defer cancelServices()
	started := false
	for {
		_, status, err := a.look(ctx)
		switch {
		case err == nil:
			if wait, err := a.unready(status); err != nil || !wait || services.Err() != nil {
				return err
			}
		case host.Err() != nil:
			return a.at.explain(err)
		case a.absent(err) && a.starter != nil && !started:
			started = true
			if err := a.starter.start(ctx); err != nil {
				return err
			}
			continue
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// unready reports whether a service that is asked for will soon be ready. One
// that is not there is an error.
func (a *attachment) unready(status control.Status) (soon bool, err error) {
	found := a.service == ""
	for _, service := range status.Services {
		if service.Service.Kind != config.KindMCP || a.service != "" && service.Service.Name != a.service {
			continue
		}
		found = true
		soon = soon || service.State == supervise.Starting || service.State == supervise.Waiting
	}
	if !found {
		return false, fmt.Errorf("there is no MCP service %q: 'plughost status' lists those that there are", a.service)
	}
	return soon, nil
}
