// Package supervise keeps the services of an installation as the operator
// wants them: one state machine per service, all driven by one loop that takes
// typed events. Whatever takes time (launching, ending, waiting) happens in
// goroutines that send their result back as an event.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/probes"
)

// Instance is what the manager needs of a *launch.Instance.
type Instance interface {
	ID() string
	PID() int
	// Exited is closed when the plugin's process has ended.
	Exited() <-chan struct{}
	// ExitError says how, as exec.Cmd.Wait does.
	ExitError() error
	// Health asks the plugin whether it can do its work. The end of ctx is
	// a failure.
	Health(ctx context.Context) error
	// Stop ends all that is left of the instance. The end of ctx ends grace.
	Stop(ctx context.Context, grace time.Duration) (probes.Result, error)
}

// StartFunc launches a service. It returns when the instance is ready, or with
// an error. If something of it is or may be left then, the instance comes with
// the error, and its Stop is called. The end of ctx aborts the start.
type StartFunc func(ctx context.Context, service config.Service) (Instance, error)

// ErrShuttingDown is returned for requests that come when the host is ending.
var ErrShuttingDown = errors.New("the host is shutting down")

// UnknownServiceError says that there is no such service.
type UnknownServiceError struct{ Ref config.Ref }

func (e *UnknownServiceError) Error() string {
	return fmt.Sprintf("there is no service %s in the configuration", e.Ref)
}

// Manager supervises services. Run must be running for its methods to return.
type Manager struct {
	start    StartFunc
	random   func() float64
	services []*service // in the order of the configuration
	watchers []func(Change)
	events   chan event
	done     chan struct{} // closed when Run has returned

	startLimit int        // how many may be launched at once; 0 means any number
	launching  int        // how many are
	queue      []*service // wait for their turn, and for nothing else

	closing   bool
	closed    []chan<- error
	stopping  context.Context // ended by Hurry: no grace any more
	stopGrace context.CancelFunc
}

// New makes a manager of the services of a configuration, all of them stopped.
// Each watcher is called with every transition, in order, by the manager's
// loop: it must not block, nor call the manager.
func New(services []config.Service, start StartFunc, watchers ...func(Change)) *Manager {
	m := &Manager{
		start:    start,
		random:   rand.Float64,
		watchers: watchers,
		events:   make(chan event),
		done:     make(chan struct{}),
	}
	m.stopping, m.stopGrace = context.WithCancel(context.Background())
	for _, conf := range services {
		m.services = append(m.services, &service{m: m, conf: conf, state: Stopped, since: time.Now()})
	}
	return m
}

// Run handles events until ctx ends. End ctx only after StopAll has returned:
// what still runs then is left running.
func (m *Manager) Run(ctx context.Context) {
	defer close(m.done)
	for {
		select {
		case e := <-m.events:
			e.handle(m)
		case <-ctx.Done():
			return
		}
	}
}

// StartAll starts every service, each when its dependencies are ready, and
// returns at once. Those in running have a process already, which StartFunc
// will return: they wait for nothing.
func (m *Manager) StartAll(running ...config.Ref) {
	m.send(startAllEvent{running})
}

// Start starts a service and returns when it is ready, or why it is not.
func (m *Manager) Start(ctx context.Context, ref config.Ref) error {
	return m.request(ctx, ref, (*service).startAsked)
}

// Stop stops a service and returns when nothing of it is left.
func (m *Manager) Stop(ctx context.Context, ref config.Ref) error {
	return m.request(ctx, ref, (*service).stopAsked)
}

// Restart replaces a service's instance and returns when the new one is ready,
// or why it is not.
func (m *Manager) Restart(ctx context.Context, ref config.Ref) error {
	return m.request(ctx, ref, (*service).restartAsked)
}

// StopAll stops every service, each after those that depend on it, and returns
// when nothing is left, with the errors of those that could not be ended. No
// service is started any more. The end of ctx does not end the wait: it takes
// the grace from the services that are still being stopped.
func (m *Manager) StopAll(ctx context.Context) error {
	stop := context.AfterFunc(ctx, m.stopGrace)
	defer stop()
	answer := make(chan error, 1)
	return m.ask(context.Background(), stopAllEvent{answer}, answer)
}

// Leave lets go of those services that are up and for which leave holds: their
// instances run on, and nobody watches them. No service is started any more.
// StopAll is to follow, for the others.
func (m *Manager) Leave(leave func(config.Service) bool) (left []config.Ref) {
	answer := make(chan []config.Ref, 1)
	m.send(leaveEvent{leave, answer})
	select {
	case left = <-answer:
	case <-m.done:
	}
	return left
}

// Statuses returns the state of every service, in the order of the
// configuration.
func (m *Manager) Statuses() []Status {
	answer := make(chan []Status, 1)
	m.send(statusEvent{answer})
	select {
	case statuses := <-answer:
		return statuses
	case <-m.done:
		return nil
	}
}

// request asks something of one service and waits for the answer.
func (m *Manager) request(ctx context.Context, ref config.Ref, request func(*service, chan<- error)) error {
	answer := make(chan error, 1)
	return m.ask(ctx, requestEvent{ref, request, answer}, answer)
}

// ask hands an event to the loop and waits for its answer.
func (m *Manager) ask(ctx context.Context, e event, answer <-chan error) error {
	select {
	case m.events <- e:
	case <-ctx.Done():
		return ctx.Err()
	case <-m.done:
		return ErrShuttingDown
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-m.done:
	}
	select {
	case err := <-answer: // the loop's last words
		return err
	default:
		return ErrShuttingDown
	}
}

// send hands an event to the loop, if it is still there.
func (m *Manager) send(e event) {
	select {
	case m.events <- e:
	case <-m.done:
	}
}

// event is something that happened, or that somebody asked for.
type event interface{ handle(*Manager) }

type (
	startAllEvent struct{ running []config.Ref }
	stopAllEvent  struct{ answer chan<- error }
	leaveEvent    struct {
		leave  func(config.Service) bool
		answer chan<- []config.Ref
	}
	statusEvent  struct{ answer chan<- []Status }
	requestEvent struct {
		ref     config.Ref
		request func(*service, chan<- error)
		answer  chan<- error
	}
	launchedEvent struct {
		service  *service
		instance Instance
		err      error
	}
	healthEvent struct {
		service *service
		checks  int
		err     error
	}
	exitedEvent struct {
		service  *service
		instance Instance
	}
	endedEvent struct {
		service *service
		err     error
	}
	retryEvent struct {
		service *service
		launch  int
	}
)

func (e healthEvent) handle(*Manager) { e.service.healthChecked(e.checks, e.err) }
func (e exitedEvent) handle(*Manager) { e.service.exited(e.instance) }
func (e retryEvent) handle(*Manager)  { e.service.retryDue(e.launch) }

func (e launchedEvent) handle(m *Manager) {
	m.launching--
	e.service.launching = false
	e.service.launched(e.instance, e.err)
	if !e.service.inUse() {
		e.service.moved = false
	}
	m.settled()
}

func (e endedEvent) handle(m *Manager) {
	e.service.ended(e.err)
	m.settled()
}

func (e startAllEvent) handle(m *Manager) {
	if m.closing {
		return
	}
	for _, s := range m.services {
		s.runs = slices.Contains(e.running, s.conf.Ref())
	}
	for _, s := range m.services {
		s.startAsked(make(chan error, 1))
	}
}

func (e requestEvent) handle(m *Manager) {
	if m.closing {
		e.answer <- ErrShuttingDown
		return
	}
	if s := m.find(e.ref); s != nil {
		e.request(s, e.answer)
		return
	}
	e.answer <- &UnknownServiceError{Ref: e.ref}
}

func (e statusEvent) handle(m *Manager) {
	statuses := make([]Status, len(m.services))
	for i, s := range m.services {
		statuses[i] = s.status()
	}
	e.answer <- statuses
}

func (e stopAllEvent) handle(m *Manager) {
	m.closing = true
	m.closed = append(m.closed, e.answer)
	for _, s := range m.services {
		s.wanted = false
		if s.state == Failed && s.running != nil {
			s.stopAsked(make(chan error, 1)) // once more
		}
	}
	m.stopNext()
}

func (e leaveEvent) handle(m *Manager) {
	var left []config.Ref
	for _, s := range m.services {
		if e.leave(s.conf) && s.up() {
			s.leave()
			left = append(left, s.conf.Ref())
		}
	}
	m.closing = true // not before: a service at rest would have others stopped
	e.answer <- left
}

// stopNext stops, when the host is ending, each service on which nothing that
// still runs depends.
func (m *Manager) stopNext() {
	for _, s := range m.services {
		if !s.atRest() && s.state != Stopping && !m.needed(s) {
			s.stopAsked(make(chan error, 1))
		}
	}
	if slices.ContainsFunc(m.services, func(s *service) bool { return !s.atRest() }) {
		return
	}
	settle(&m.closed, m.stopErrors())
}

// stopErrors are those of services of which something is left.
func (m *Manager) stopErrors() error {
	var errs []error
	for _, s := range m.services {
		if s.running != nil {
			errs = append(errs, s.err)
		}
	}
	return errors.Join(errs...)
}

// needed reports whether a service that depends on s still runs.
func (m *Manager) needed(s *service) bool {
	return slices.ContainsFunc(m.services, func(other *service) bool {
		return !other.atRest() && slices.Contains(other.conf.DependsOn, s.conf.Ref())
	})
}

// missingDependency returns a dependency of s that is not ready, or nil.
func (m *Manager) missingDependency(s *service) *service {
	for _, ref := range s.conf.DependsOn {
		if dependency := m.find(ref); dependency != nil && dependency.state != Ready {
			return dependency
		}
	}
	return nil
}

// blocker returns a service at rest on which s waits, itself or through others
// that wait, or nil if all that it waits for is on its way.
func (m *Manager) blocker(s *service) *service {
	for _, ref := range s.conf.DependsOn {
		dependency := m.find(ref)
		switch {
		case dependency == nil:
		case dependency.atRest():
			return dependency
		case dependency.state == Waiting:
			if blocker := m.blocker(dependency); blocker != nil {
				return blocker
			}
		}
	}
	return nil
}

// dependencyReady tells those that wait for s.
func (m *Manager) dependencyReady(s *service) {
	for _, other := range m.services {
		if slices.Contains(other.conf.DependsOn, s.conf.Ref()) {
			other.dependencyReady()
		}
	}
}

// dependencyFailed tells those that wait for s, themselves or through others that
// wait, that it has failed and is tried again.
func (m *Manager) dependencyFailed(s *service) {
	for _, other := range m.services {
		if other.state == Waiting && m.waitsOn(other, s) {
			other.dependencyFailed(s)
		}
	}
}

// waitsOn reports whether s depends on another service, itself or through others
// that wait.
func (m *Manager) waitsOn(s, on *service) bool {
	return slices.ContainsFunc(s.conf.DependsOn, func(ref config.Ref) bool {
		dependency := m.find(ref)
		return dependency == on || dependency != nil && dependency.state == Waiting && m.waitsOn(dependency, on)
	})
}

// atRest is called when a service has come to rest.
func (m *Manager) atRest() {
	if m.closing {
		m.stopNext()
		return
	}
	m.dropNext()
	for _, s := range m.services {
		if s.state == Waiting {
			s.settleHopeless()
		}
	}
}

func (m *Manager) find(ref config.Ref) *service {
	for _, s := range m.services {
		if s.conf.Ref() == ref {
			return s
		}
	}
	return nil
}

func (m *Manager) notify(change Change) {
	for _, watch := range m.watchers {
		watch(change)
	}
}
