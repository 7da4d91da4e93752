package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/control"
	"github.com/plughost/plughost/host/internal/installation"
)

// completionPatience bounds how long a shell waits for the names of services.
const completionPatience = time.Second

// completeServices offers a shell the names of services that an argument can
// be: those of the running host or, without one, of the registry and of the
// configuration in the working directory.
func (l *location) completeServices(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionPatience)
	defer cancel()
	var offers []cobra.Completion
	for name, description := range l.serviceNames(ctx) {
		if strings.HasPrefix(name, word) && !slices.Contains(args, name) {
			offers = append(offers, cobra.CompletionWithDesc(name, description))
		}
	}
	slices.Sort(offers)
	return offers, cobra.ShellCompDirectiveNoFileComp
}

// completeService is for verbs that take one service.
func (l *location) completeService(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return l.completeServices(cmd, args, word)
}

// serviceNames are what services can be called, with what is known of them. A
// name that several kinds have is offered with its kind.
func (l *location) serviceNames(ctx context.Context) map[string]string {
	known := l.knownServices(ctx)
	kinds := make(map[string]int)
	for ref := range known {
		kinds[ref.Name]++
	}
	names := make(map[string]string)
	for ref, description := range known {
		if kinds[ref.Name] > 1 {
			names[ref.String()] = description
		} else {
			names[ref.Name] = description
		}
	}
	return names
}

func (l *location) knownServices(ctx context.Context) map[config.Ref]string {
	services := make(map[config.Ref]string)
	if paths, err := installation.Find(l.dir("")); err == nil {
		if status, err := control.NewClient(paths.ControlSocket()).Status(ctx); err == nil {
			for _, s := range status.Services {
				services[s.Service] = string(s.Service.Kind) + ", " + string(s.State)
			}
			return services
		}
	}
	if known, err := l.know(ctx); err == nil {
		for _, record := range known.records {
			services[serviceOf(record.Identity)] = "in the registry"
		}
	}
	if conf, _ := config.Load(defaultConfig); conf != nil {
		for _, service := range conf.Services {
			services[service.Ref()] = "in " + defaultConfig
		}
	}
	return services
}
