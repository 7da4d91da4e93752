package main

import (
	"os"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/plughost/plughost/host/internal/cgroup"
	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/launch"
)

// confinement is what a service is held to.
func confinement(service config.Service) launch.Confinement {
	return launch.Confinement{
		SHA256:     service.Checksum,
		Account:    service.Account,
		NoNewPrivs: service.NoNewPrivs,
		OpenFiles:  service.Limits.OpenFiles,
		Nice:       service.Limits.Nice,
		Group:      groupLimits(service),
	}
}

func groupLimits(service config.Service) cgroup.Limits {
	return cgroup.Limits{
		Memory:    service.Limits.Memory,
		CPUs:      service.Limits.CPUs,
		Processes: service.Limits.Processes,
	}
}

// hostEnvironment is what a service may inherit from. One that runs as another
// user is not given the host's HOME, USER and LOGNAME, but that user's.
func hostEnvironment(service config.Service) []string {
	env := os.Environ()
	if service.Account != nil {
		env = append(env, service.Account.Environ()...)
	}
	return env
}

// limits is what a host knows of control groups.
type limits struct {
	tree *cgroup.Tree // nil where there are none
	why  error        // there are none

	mu     sync.Mutex
	warned map[config.Ref]bool
}

// open finds where the host may make control groups.
func (l *limits) open(installation string, log hclog.Logger) *cgroup.Tree {
	l.tree, l.why = cgroup.Open(installation)
	if l.why != nil {
		log.Debug("services get no control groups", "reason", l.why)
	}
	return l.tree
}

// warn tells, once for each service, which of its limits cannot be set here.
func (l *limits) warn(service config.Service, log hclog.Logger) {
	wanted := groupLimits(service)
	l.mu.Lock()
	defer l.mu.Unlock()
	if wanted.IsZero() || l.warned[service.Ref()] {
		return
	}
	missing := []error{l.why}
	if l.tree != nil {
		missing = l.tree.Missing(wanted)
	}
	for _, err := range missing {
		log.Warn("a limit cannot be set: the service starts without it", "service", service.Ref(), "reason", err)
	}
	if l.warned == nil {
		l.warned = make(map[config.Ref]bool)
	}
	l.warned[service.Ref()] = true
}

func (l *limits) close() error {
	if l.tree == nil {
		return nil
	}
	return l.tree.Close()
}
