package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/control"
	"github.com/plughost/plughost/host/internal/gateway"
	"github.com/plughost/plughost/host/internal/guard"
	"github.com/plughost/plughost/host/internal/installation"
	"github.com/plughost/plughost/host/internal/launch"
	"github.com/plughost/plughost/host/internal/reclaim"
	"github.com/plughost/plughost/host/internal/registry"
	"github.com/plughost/plughost/host/internal/supervise"
	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/marker"
)

const (
	// reclaimGrace is for leftovers of services that are no longer configured.
	reclaimGrace = 10 * time.Second
	// requestGrace is what requests under way get when the host ends, before
	// the services themselves are stopped.
	requestGrace = 5 * time.Second
)

// host is a host from its lock to its end.
type host struct {
	conf      *config.Config
	inst      *installation.Installation
	log       hclog.Logger
	started   time.Time
	registry  *registry.Registry
	launcher  *launch.Launcher
	reclaimer *reclaim.Reclaimer
	plugins   *pluginChecker
	attached  map[string]shared.Reattach // by service: not to be started
	adopted   adoptedInstances
	journal   *journal
	news      *news
	gateway   *gateway.Gateway
	guard     *guard.Guard // in front of the gateway
	manager   *supervise.Manager
	readiness *readiness
	limits    limits
	systemd   systemd
	output    output
	base      string // URL of the gateway, from listen on

	now     atomic.Pointer[config.Config] // what holds since the last reload; conf is the first
	input   config.Input                  // of the configuration, its paths absolute
	hangups <-chan struct{}               // each is a reload
}

// current is the configuration that holds now.
func (h *host) current() *config.Config { return h.now.Load() }

func newHost(conf *config.Config, inst *installation.Installation, log hclog.Logger, outliveHost bool) (*host, error) {
	h := &host{conf: conf, inst: inst, log: log, started: time.Now(), readiness: newReadiness(conf.Services), systemd: systemd{log}}
	h.now.Store(conf)
	h.news = newNews(h.started, log)
	keys, err := inst.Keys()
	if err != nil {
		return nil, err
	}
	var movedTo string
	var why error
	if h.registry, movedTo, why, err = registry.Open(inst.Registry()); err != nil {
		return nil, err
	}
	if why != nil {
		log.Error("the registry could not be read and was moved aside; children are found by their marker", "reason", why, "moved_to", movedTo)
		h.news.registryMoved(movedTo, why)
	}
	h.launcher = &launch.Launcher{
		Installation: inst,
		Keys:         keys,
		Registry:     h.registry,
		Spawner:      &launch.Spawner{},
		OutliveHost:  outliveHost,
		Groups:       h.limits.open(inst.ID, log),
	}
	if h.attached, err = launch.ParseReattach(os.Getenv(shared.EnvReattach)); err != nil {
		return nil, errors.Join(err, h.registry.Close())
	}
	h.plugins = newPluginChecker(inst.Dir, h.launcher.Spawner, &h.launcher.Binaries)
	h.reclaimer = &reclaim.Reclaimer{
		Installation: inst.ID,
		Registry:     h.registry,
		Grace:        h.grace,
		Live:         h.launcher.Live,
		Groups:       h.limits.tree,
		Ended:        h.news.orphan,
		Log:          log,
	}
	if h.journal, err = openJournal(inst.Logs(), conf, log); err != nil {
		return nil, errors.Join(err, h.registry.Close())
	}
	if err := h.launcher.Room(); err != nil && len(conf.Services) > 0 {
		// With what the logs have taken it could not even answer its operator.
		return nil, errors.Join(err, h.journal.close(), h.registry.Close())
	}
	if h.gateway, err = gateway.New(conf.Services, conf.Host.Gateway.Limits, h.readiness.all, version(), log); err != nil {
		return nil, errors.Join(err, h.journal.close(), h.registry.Close())
	}
	h.gateway.SetURL(conf.Host.Gateway.URL)
	// The gateway before those who tell of a transition: who hears that a service is
	// ready finds it there.
	h.manager = supervise.New(conf.Services, h.start, newProcessors().watch, h.gateway.Watch, h.journal.watch, h.news.watch, h.readiness.watch)
	h.manager.LimitStarts(conf.Host.StartLimit)
	h.news.metrics.Observe(h.manager.Statuses, h.journal.counts)
	h.gateway.Metrics = h.news.metrics.Handler()
	h.gateway.ObserveCalls(h.news.metrics)
	h.news.metrics.ObserveSessions(h.gateway.Sessions)
	if h.guard, err = guard.New(conf, h.gateway.Handler(), h.news.metrics, log); err != nil {
		return nil, errors.Join(err, h.journal.close(), h.registry.Close())
	}
	return h, nil
}

// grace is what a process of a service gets between SIGTERM and SIGKILL.
func (h *host) grace(kind marker.Kind, name string) time.Duration {
	if service, ok := h.current().Service(config.Ref{Kind: config.Kind(kind), Name: name}); ok {
		return service.StopGrace
	}
	return reclaimGrace
}

// defaultGrace is grace for who does not know the configuration.
func defaultGrace(marker.Kind, string) time.Duration { return reclaimGrace }

// Instances implements control.Processes. The registry has also what an earlier
// host left and could not be ended.
func (h *host) Instances() ([]registry.Record, error) {
	records, err := h.registry.All()
	return slices.DeleteFunc(records, func(r registry.Record) bool { return !h.launcher.Live(r.Identity.Instance) }), err
}

// Reclaim implements control.Processes. What is left by now is found by its
// marker.
func (h *host) Reclaim(ctx context.Context) (reclaim.Report, error) {
	report := h.reclaimer.RunMarked(ctx)
	h.news.reclaimed(report)
	return report, nil
}

// start is how the manager starts a service.
func (h *host) start(ctx context.Context, service config.Service) (supervise.Instance, error) {
	if instance := h.adopted.take(service.Ref()); instance != nil {
		return h.introduced(ctx, service, instance)
	}
	if at, ok := h.attached[service.Name]; ok {
		return h.attach(ctx, service, at)
	}
	if service.Port != 0 {
		if err := h.reclaimer.FreePort(ctx, service.Port); err != nil {
			h.news.startRefused(service.Ref(), err)
			return nil, err
		}
	}
	h.limits.warn(service, h.log)
	spec, err := h.spec(service)
	if err != nil {
		return nil, err
	}
	instance, err := h.launcher.Launch(ctx, spec)
	switch {
	case instance == nil:
		return nil, err // not a nil *Instance in an interface
	case err != nil:
		return instance, err
	}
	return h.introduced(ctx, service, instance)
}

// attach uses a plugin that somebody else has started.
func (h *host) attach(ctx context.Context, service config.Service, at shared.Reattach) (supervise.Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, service.ReadyTimeout)
	defer cancel()
	spec, err := h.spec(service)
	if err != nil {
		return nil, err
	}
	instance, err := launch.Attach(ctx, at, spec)
	if err != nil {
		return nil, err
	}
	h.log.Warn("attached to a plugin that somebody else has started, and will not end it", "service", service.Ref(), "pid", at.PID)
	return h.introduced(ctx, service, instance)
}

// plugin is a plugin that runs, for those who supervise it and those who use it.
type plugin interface {
	supervise.Instance
	gateway.Plugin
}

// spec says how a service is launched.
func (h *host) spec(service config.Service) (launch.Spec, error) {
	spec, err := specOf(service)
	spec.Output = h.journal.output(service.Ref())
	spec.Redact = h.current().Redact
	spec.Configuration = &learner{service, spec, h.plugins.known}
	return spec, err
}

// specOf says how a service is launched, but for where its output goes.
func specOf(service config.Service) (launch.Spec, error) {
	spec := launch.Spec{
		Kind:          marker.Kind(service.Kind),
		Name:          service.Name,
		Dir:           service.Dir,
		Env:           launch.Environment(hostEnvironment(service), service.Inherit, service.Env),
		Port:          service.Port,
		ReadyTimeout:  service.ReadyTimeout,
		OrphanTTL:     service.OrphanTTL,
		Output:        func(launch.Stream, []byte) {},
		Confinement:   confinement(service),
		Settings:      service.Settings(),
		Configuration: service,
	}
	err := program(service, &spec)
	return spec, err
}

// introduced returns an instance once clients can use it. One that they cannot
// comes with an error, and is to be stopped.
func (h *host) introduced(ctx context.Context, service config.Service, instance plugin) (supervise.Instance, error) {
	err := h.introduce(ctx, service, instance)
	if err != nil {
		err = launch.Redacted(explainIntroduction(err, instance), h.current().Redact)
	}
	return instance, err
}

// exitGrace is how long an instance has to end by itself whose session broke.
const exitGrace = 250 * time.Millisecond

// explainIntroduction adds how the instance ended, if it did: its exit status
// says whether there is a point in trying again.
func explainIntroduction(err error, instance plugin) error {
	select {
	case <-instance.Exited():
		return errors.Join(err, instance.ExitError())
	case <-time.After(exitGrace):
		return err
	}
}

// introduce has the gateway show what a new instance has, in the time that a
// start may take.
func (h *host) introduce(ctx context.Context, service config.Service, instance plugin) error {
	ctx, cancel := context.WithTimeout(ctx, service.ReadyTimeout)
	defer cancel()
	return h.gateway.Introduce(ctx, service.Ref(), instance)
}

// run boots, serves until stop ends, and shuts down; hurry takes the grace
// from a shutdown.
func (h *host) run(ctx, stop, hurry context.Context) (err error) {
	defer func() {
		// What was lost of a log, perhaps long ago, is no failure of the stop.
		if lost := h.journal.close(); lost != nil {
			h.log.Warn("lines of the services' logs were lost", "reason", lost)
		}
		err = errors.Join(err, h.limits.close(), h.registry.Close(), h.inst.RemoveRunDir(), h.inst.Close())
	}()
	h.news.started()
	strays, endStrays := context.WithCancel(context.WithoutCancel(ctx))
	defer endStrays()
	if err := h.launcher.Spawner.AdoptStrays(strays); err != nil {
		h.log.Warn("what services leave behind goes to init", "reason", err)
	}
	if err := h.reclaim(stop); err != nil {
		return err
	}
	listener, err := h.listen(stop)
	if err != nil {
		return err
	}
	socket, err := h.openControl()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	api := control.NewServer(h.manager, h.status)
	api.Version = version()
	api.HandleProcesses(h)
	reloader := &reloader{host: h, stop: stop}
	api.HandleConfiguration(reloader)
	api.HandleEvents(h.news.events)
	api.HandleLogs(h.journal)
	api.HandleGateway(h.guard.Owner())

	loop, endLoop := context.WithCancel(context.WithoutCancel(ctx))
	var running, announcing sync.WaitGroup
	running.Go(func() { h.manager.Run(loop) })
	var loud func()
	if stop.Err() == nil { // else it came during the reclaim
		loud = h.quiet()
		// Before anybody can ask: a service that is about to start is not one that
		// is stopped.
		h.manager.StartAll(h.adopted.refs()...)
	}
	running.Go(func() { h.serve("the gateway", func() error { return h.guard.Serve(listener) }) })
	running.Go(func() { h.serve("the control API", func() error { return api.Serve(socket) }) })
	if loud != nil {
		announcing.Go(func() { h.announce(stop, loud) })
		running.Go(func() { h.systemd.follow(stop, h.news.events, h.manager.Statuses) })
	}
	running.Go(func() { h.systemd.watchdog(loop, func() { h.manager.Statuses() }) })
	running.Go(reloader.onHangup)
	<-stop.Done()
	h.systemd.stopping()
	h.news.stopping()
	announcing.Wait() // both write to one terminal
	defer h.quiet()()
	announcing.Go(func() { h.showServices(loop, atRest) })
	err = h.shutDown(hurry, api, keepsServices(stop))
	announcing.Wait() // it asks the loop how it ended
	endLoop()
	running.Wait()
	return err
}

// openControl opens the control socket for all who may use it.
func (h *host) openControl() (net.Listener, error) {
	group := control.Nobody
	if allowed := h.conf.Host.Control; allowed.Group != "" {
		group = allowed.GID
	}
	if err := h.inst.Admit(group); err != nil {
		return nil, err
	}
	return control.Listen(h.inst.ControlSocket(), group)
}

// serve runs a server. One that fails by itself is told of; the services go on.
func (h *host) serve(what string, serve func() error) {
	if err := serve(); err != nil && !errors.Is(err, http.ErrServerClosed) {
		h.log.Error(what+" has ended", "error", err)
	}
}

// reclaim takes back what an earlier host of the installation left.
func (h *host) reclaim(ctx context.Context) error {
	// A stop that comes meanwhile is no reason to end what is to be kept.
	if err := h.adopt(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("cannot take over what an earlier host left: %w", err)
	}
	recorded, err := h.registry.All()
	if err != nil {
		return fmt.Errorf("cannot reclaim what an earlier host left: %w", err)
	}
	report, err := h.reclaimer.Run(ctx)
	if err != nil {
		return fmt.Errorf("cannot reclaim what an earlier host left: %w", err)
	}
	h.news.reclaimed(report)
	for _, s := range report.Stopped {
		level, message := hclog.Info, "reclaimed what an earlier host left"
		if !slices.ContainsFunc(recorded, func(r registry.Record) bool { return r.Identity.Instance == s.Identity.Instance }) {
			level, message = hclog.Warn, message+", which the registry has lost: it was found by its marker"
		}
		h.log.Log(level, message, "service", serviceOf(s.Identity),
			"instance", s.Identity.Instance, "pid", s.PID, "others", len(s.Result.Swept), "how", s.Result.How)
	}
	for _, left := range report.Groups {
		if len(left.PIDs) > 0 {
			h.log.Info("ended what was left in the control group of an earlier host's instance",
				"instance", left.Instance, "pids", left.PIDs)
		}
	}
	for _, record := range report.Foreign {
		h.log.Info("a recorded process is gone, and its pid is another's now: left alone",
			"service", serviceOf(record.Identity), "pid", record.PID)
	}
	for _, u := range report.Unknown {
		h.log.Warn("a recorded process could not be identified: left alone",
			"service", serviceOf(u.Record.Identity), "pid", u.Record.PID, "reason", u.Reason)
	}
	// The services start all the same: a process that cannot be ended holds up
	// at the most the service whose port it has.
	for _, failure := range report.Failures {
		h.log.Error("something that an earlier host left is still there", "error", failure)
	}
	needed := h.adopted.instances()
	for _, u := range report.Unknown {
		needed = append(needed, u.Record.Identity.Instance)
	}
	return h.inst.PrepareRunDir(func(path string) bool {
		return slices.ContainsFunc(needed, func(instance string) bool { return h.inst.InstanceDir(instance) == path })
	})
}

func serviceOf(id marker.Identity) config.Ref {
	return config.Ref{Kind: config.Kind(id.Kind), Name: id.Service}
}

// listen opens the gateway's port, or says who has it.
func (h *host) listen(ctx context.Context) (net.Listener, error) {
	listener, err := net.Listen("tcp", h.conf.Host.Listen)
	if err == nil {
		h.base = h.guard.Scheme() + "://" + reachable(listener.Addr(), h.conf.Host.Gateway.Hosts)
		return listener, nil
	}
	if _, port, splitErr := net.SplitHostPort(h.conf.Host.Listen); splitErr == nil {
		if number, atoiErr := strconv.Atoi(port); atoiErr == nil {
			var held *reclaim.PortHeldError
			if errors.As(h.reclaimer.FreePort(ctx, number), &held) {
				return nil, fmt.Errorf("cannot open the gateway: %w", held)
			}
		}
	}
	return nil, fmt.Errorf("cannot open the gateway: %w", err)
}

// reachable is an address that clients can use: the port may have been left
// open, and an interface, too.
func reachable(listening net.Addr, names []string) string {
	tcp, ok := listening.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return listening.String()
	}
	name := "localhost"
	if len(names) > 0 {
		name = names[0]
	}
	return net.JoinHostPort(name, strconv.Itoa(tcp.Port))
}

// shutDown stops taking requests, then stops the services, and then the rest.
// Services that are to outlive the host are left running if keep is true.
func (h *host) shutDown(hurry context.Context, api *control.Server, keep bool) error {
	h.gateway.EndListening()
	requests, cancel := context.WithTimeout(hurry, requestGrace)
	defer cancel()
	h.guard.Shutdown(requests)

	services, cancel := context.WithTimeout(hurry, h.current().Host.ShutdownTimeout)
	defer cancel()
	var left []config.Ref
	if keep {
		left = h.manager.Leave(func(service config.Service) bool { return service.OnHostExit == config.HostExitKeep })
	}
	err := h.manager.StopAll(services)
	if !keep {
		err = errors.Join(err, h.stopAdopted(services))
	}
	h.gateway.Close()
	h.news.events.Close()
	h.journal.endFollowing()

	ending, cancel := context.WithTimeout(context.WithoutCancel(hurry), time.Second)
	defer cancel()
	if apiErr := api.Shutdown(ending); apiErr != nil {
		h.log.Debug("requests to the control API were cut off", "error", apiErr)
	}
	if err != nil {
		return fmt.Errorf("not all could be stopped: %w", err)
	}
	if len(left) > 0 {
		h.log.Info("the other services are stopped", "left_running", left)
		return nil
	}
	h.log.Info("all services are stopped")
	return nil
}

func (h *host) status(ctx context.Context, usage bool) control.Status {
	status := control.Status{
		Version:      version(),
		PID:          os.Getpid(),
		Installation: h.inst.ID,
		StateDir:     h.inst.Dir,
		Started:      h.started,
		Gateway:      h.base,
		Ready:        h.readiness.all(),
		Services:     []control.ServiceStatus{},
	}
	for _, service := range h.manager.Statuses() {
		status.Services = append(status.Services, control.ServiceStatus{Status: service})
	}
	if usage {
		h.measure(ctx, status.Services)
	}
	return status
}
