package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plughost/plughost/host/internal/boot"
	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/control"
)

// stopMargin is what a service manager grants a host beyond the shutdown of its
// services: for the requests under way, and for what is left to be written.
const stopMargin = requestGrace + 10*time.Second

// bootOptions say which host the machine is to start.
type bootOptions struct {
	at      *location
	name    string
	perUser bool
	account string
	env     []string
	input   config.Input
	print   bool
}

func newBootCommand(at *location) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "boot",
		Short: "Have the machine start the host by itself",
		Long: `Have the machine start the host by itself: as a unit of systemd, a job of
launchd, or a service of Windows. Without --user it is started with the machine,
which takes root; with --user, when its user logs in (with systemd, see
loginctl enable-linger).`,
	}
	options := &bootOptions{at: at}
	cmd.PersistentFlags().StringVar(&options.name, "name", "plughost", "what the unit, job or service is called")
	cmd.PersistentFlags().BoolVar(&options.perUser, "user", false, "for the user, not for the machine")
	cmd.AddCommand(newBootInstallCommand(options), newBootUninstallCommand(options), newBootStatusCommand(options))
	return cmd
}

func newBootInstallCommand(o *bootOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "install [-- FLAG...]",
		Short: "Define the host for the machine, and start it",
		Long: `Check the configuration, define the host for the service manager of the
machine, and start it. What comes after -- is passed on to plughost run. An
older definition is replaced, and its host restarted.

The host gets the PATH of now, by which it finds commands, and the variables that
are given with --env.`,
		Example: "  plughost boot install --config /etc/plughost --print\n  plughost boot install --config /etc/plughost --run-as plughost\n  plughost boot install --user --config services.hcl --env HOME",
		RunE: func(cmd *cobra.Command, args []string) error {
			manager, err := boot.Current()
			if err != nil {
				return err
			}
			service, err := o.service(args)
			if err != nil {
				return err
			}
			if o.print {
				text, err := manager.Define(service)
				if err == nil {
					_, err = io.WriteString(cmd.OutOrStdout(), text)
				}
				return err
			}
			return o.install(cmd.Context(), cmd.OutOrStdout(), manager, service)
		},
	}
	addInputFlags(cmd, &o.input)
	cmd.Flags().StringVar(&o.account, "run-as", "", "`USER` whom the host of the machine runs as (default root)")
	cmd.Flags().StringArrayVar(&o.env, "env", nil, "`NAME` of a variable that the host gets as it is now, or NAME=VALUE; may be given several times")
	cmd.Flags().BoolVar(&o.print, "print", false, "print the definition, and install nothing")
	return cmd
}

func newBootUninstallCommand(o *bootOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "uninstall",
		Short: "Stop the host, and have the machine forget it",
		Long: `Stop the host that the machine starts, and have the machine forget it. The state
directory stays.`,
		Example: "  plughost boot uninstall\n  plughost boot uninstall --user",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			manager, err := boot.Current()
			if err != nil {
				return err
			}
			if err := manager.Uninstall(cmd.Context(), o.named()); err != nil {
				return o.explain("uninstall", err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Uninstalled %s.\n", o.name)
			return nil
		},
	}
}

func newBootStatusCommand(o *bootOptions) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Say whether the machine starts the host, and how it is",
		Example: "  plughost boot status\n  plughost boot status --user --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			manager, err := boot.Current()
			if err != nil {
				return err
			}
			status, err := manager.Status(cmd.Context(), o.named())
			if err != nil {
				return o.explain("look at", err)
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), status)
			}
			writeBootStatus(cmd.OutOrStdout(), status)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// named is the service as far as it is needed to find it.
func (o *bootOptions) named() boot.Service { return boot.Service{Name: o.name, PerUser: o.perUser} }

// service is the one that the options describe. Its configuration has no fault.
func (o *bootOptions) service(args []string) (boot.Service, error) {
	if o.perUser && o.account != "" {
		return boot.Service{}, usageError{errors.New("--run-as is for the machine's host: one of a user runs as that user")}
	}
	conf, warnings, err := loadConfig(o.input)
	if err != nil {
		return boot.Service{}, err
	}
	if err := writeDiagnostics(os.Stderr, warnings); err != nil {
		return boot.Service{}, err
	}
	input, err := absolute(o.input)
	if err != nil {
		return boot.Service{}, err
	}
	stateDir, err := filepath.Abs(o.at.dir(conf.Host.StateDir))
	if err != nil {
		return boot.Service{}, err
	}
	executable, err := os.Executable()
	if err != nil {
		return boot.Service{}, err
	}
	env, err := o.environment()
	if err != nil {
		return boot.Service{}, err
	}
	service := o.named()
	service.Executable = executable
	service.Args = []string{"run"}
	service.Args = append(service.Args, inputFlags(input)...)
	service.Args = append(append(service.Args, "--state-dir", stateDir), args...)
	service.Reload = []string{"reload", "--state-dir", stateDir}
	service.StateDir, service.Account, service.Env = stateDir, o.account, env
	service.StopTimeout = conf.Host.ShutdownTimeout + stopMargin
	service.Keeps = slices.ContainsFunc(conf.Services, func(s config.Service) bool { return s.OnHostExit == config.HostExitKeep })
	return service, nil
}

// environment are the variables that the host gets.
func (o *bootOptions) environment() ([]string, error) {
	env := []string{"PATH=" + os.Getenv("PATH")}
	for _, entry := range o.env {
		name, value, given := strings.Cut(entry, "=")
		if !given {
			var set bool
			if value, set = os.LookupEnv(name); !set {
				return nil, usageError{fmt.Errorf("--env %s: the variable is not set", name)}
			}
		}
		env = append(env, name+"="+value) // the last one holds
	}
	return env, nil
}

// install has the machine start a host now and at each boot.
func (o *bootOptions) install(ctx context.Context, w io.Writer, manager boot.Manager, service boot.Service) error {
	if runtime.GOOS != "windows" && !o.perUser && os.Geteuid() != 0 {
		return errors.New("only root can install a host for the machine: use sudo, or --user for a host of your own, or --print")
	}
	before, err := manager.Status(ctx, o.named())
	if err != nil {
		return o.explain("install", err)
	}
	if running, ok := hostOn(ctx, o.at, service.StateDir); ok && running.PID != before.PID {
		return fmt.Errorf("a host is running on %s already, with pid %d: end it first", service.StateDir, running.PID)
	}
	if err := manager.Install(ctx, service); err != nil {
		return o.explain("install", err)
	}
	fmt.Fprintf(w, "Installed and started %s.\n", o.name)
	after, err := manager.Status(ctx, o.named())
	if err != nil {
		return err
	}
	writeBootStatus(w, after)
	return nil
}

func (o *bootOptions) explain(verb string, err error) error {
	return fmt.Errorf("cannot %s %s: %w", verb, o.name, err)
}

// hostOn asks the host that runs on a state directory, if one does.
func hostOn(ctx context.Context, at *location, stateDir string) (control.Status, bool) {
	elsewhere := *at
	elsewhere.stateDir = stateDir
	client, err := elsewhere.client()
	if err != nil {
		return control.Status{}, false
	}
	status, err := client.Status(ctx)
	return status, err == nil
}

func writeBootStatus(w io.Writer, s boot.Status) {
	if !s.Installed {
		fmt.Fprintf(w, "%s (%s) is not installed.\n", s.Name, s.Manager)
		return
	}
	for _, line := range [][2]string{
		{"service", fmt.Sprintf("%s (%s)", s.Name, s.Manager)},
		{"defined in", s.Definition},
		{"at boot", map[bool]string{true: "started", false: "not started"}[s.Enabled]},
		{"state", s.State},
		{"pid", number(s.PID)},
		{"says", s.Text},
	} {
		if line[1] != "" {
			fmt.Fprintf(w, "  %-10s  %s\n", line[0], line[1])
		}
	}
}
