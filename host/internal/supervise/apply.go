package supervise

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plughost/plughost/host/internal/config"
)

// Update is a configuration for services that may be running already.
type Update struct {
	// Services are all that are to be there, in order, without a fault.
	Services []config.Service
	// StartLimit is how many may be starting at once; 0 means any number.
	StartLimit int
	// Stale are the ids of the instances whose executable is another by now.
	Stale map[string]bool
	// Taken is called by the manager's loop when the update is taken, before
	// anything of it is done. It must not block, nor call the manager. It may
	// be nil.
	Taken func()
}

// Action is what an update does to a service.
type Action string

// The actions.
const (
	// StartIt starts what is new, or what had failed and was changed.
	StartIt Action = "start"
	// Replace ends the instance, and starts another.
	Replace Action = "restart"
	// Drop stops what is not in the configuration any more, and forgets it.
	Drop Action = "stop"
	// ChangeInPlace changes what the host does with the instance, or with the
	// next one, and touches no process.
	ChangeInPlace Action = "update"
	// Keep changes nothing.
	Keep Action = "keep"
)

// becauseBinary stands among the attributes for an executable that is another
// than the one that the instance runs.
const becauseBinary = "binary"

// Step is what an update does to one service.
type Step struct {
	Service config.Ref `json:"service"`
	Action  Action     `json:"action"`
	// Because are the attributes that differ, or "binary".
	Because []string `json:"because,omitempty"`
	// Forces are those of them that need another process.
	Forces []string `json:"forces,omitempty"`
	// Changes are the values of the attributes in Because that can be shown.
	Changes []config.Change `json:"changes,omitempty"`
	// State and PID are the service's before the update.
	State State `json:"state,omitempty"`
	PID   int   `json:"pid,omitempty"`
	// Error is why the step failed; Wait sets it.
	Error string `json:"error,omitempty"`
}

// Plan says what Apply would do now. It changes nothing.
func (m *Manager) Plan(ctx context.Context, update Update) ([]Step, error) {
	var steps []Step
	answer := make(chan error, 1)
	err := m.ask(ctx, planEvent{update, &steps, answer}, answer)
	if err != nil {
		return nil, err
	}
	return steps, nil
}

// Applied is an update that was taken.
type Applied struct {
	// Steps are in the order of the update's services; what is dropped comes
	// last.
	Steps   []Step
	answers []<-chan error
	done    <-chan struct{}
}

// Apply makes the services those of the update, with the smallest change, and
// returns when that has begun: no process of a service that is kept or changed
// in place is touched. A service that is dropped is there until nothing of it is
// left; one that cannot be ended stays, and is Failed.
func (m *Manager) Apply(ctx context.Context, update Update) (*Applied, error) {
	applied := &Applied{done: m.done}
	answer := make(chan error, 1)
	// Whoever asks may leave; the update is taken as a whole all the same.
	taken := &Applied{done: m.done}
	if err := m.ask(ctx, applyEvent{update, taken, answer}, answer); err != nil {
		return nil, err
	}
	*applied = *taken
	return applied, nil
}

// Wait returns when every step is done or has failed, and sets the errors of
// those that have. A step that a later update or request has overtaken counts
// as failed. The end of ctx ends the wait alone.
func (a *Applied) Wait(ctx context.Context) error {
	for i, answer := range a.answers {
		if answer == nil {
			continue
		}
		var err error
		select {
		case err = <-answer:
		case <-ctx.Done():
			return ctx.Err()
		case <-a.done:
			select {
			case err = <-answer: // the loop's last words
			default:
				err = ErrShuttingDown
			}
		}
		if err != nil {
			a.Steps[i].Error = err.Error()
		}
	}
	return nil
}

type (
	planEvent struct {
		update Update
		steps  *[]Step
		answer chan<- error
	}
	applyEvent struct {
		update  Update
		applied *Applied
		answer  chan<- error
	}
)

func (e planEvent) handle(m *Manager) {
	if m.closing {
		e.answer <- ErrShuttingDown
		return
	}
	for _, task := range m.tasks(e.update) {
		*e.steps = append(*e.steps, task.step)
	}
	e.answer <- nil
}

func (e applyEvent) handle(m *Manager) {
	if m.closing {
		e.answer <- ErrShuttingDown
		return
	}
	if e.update.Taken != nil {
		e.update.Taken()
	}
	tasks := m.tasks(e.update)
	m.startLimit = e.update.StartLimit
	m.services = make([]*service, len(tasks))
	for i, task := range tasks {
		m.services[i] = task.service
		task.service.configured(task)
	}
	// What ends comes first: no dependant starts on what is about to go, and
	// ports are free for others.
	inOrder := startOrder(tasks, e.update)
	for _, action := range []Action{Drop, Replace, StartIt} {
		for _, task := range inOrder {
			if task.step.Action == action {
				task.service.carryOut(task)
			}
		}
		if action == Drop {
			m.dropNext()
		}
	}
	for _, s := range m.services {
		if s.state == Waiting {
			s.begin("what it waited for has changed")
		}
	}
	m.nextTurns()
	for _, task := range tasks {
		e.applied.Steps = append(e.applied.Steps, task.step)
		e.applied.answers = append(e.applied.answers, task.answer)
	}
	e.answer <- nil
}

// task is a step with what it takes to do it.
type task struct {
	step    Step
	service *service // a new one, if the manager has none
	conf    config.Service
	// answer gets the result, if there is something to wait for.
	answer chan error
}

// tasks are what an update comes to as the services are now.
func (m *Manager) tasks(update Update) []*task {
	known := make(map[config.Ref]*service, len(m.services))
	for _, s := range m.services {
		known[s.conf.Ref()] = s
	}
	var tasks []*task
	for _, conf := range update.Services {
		s := known[conf.Ref()]
		if s == nil {
			s = &service{m: m, conf: conf, state: Stopped, since: time.Now()}
			tasks = append(tasks, &task{step: Step{Service: conf.Ref(), Action: StartIt}, service: s, conf: conf})
			continue
		}
		delete(known, conf.Ref())
		tasks = append(tasks, &task{step: s.stepTo(conf, update.Stale), service: s, conf: conf})
	}
	for _, s := range m.services {
		if known[s.conf.Ref()] != nil {
			step := s.step(Drop, nil)
			tasks = append(tasks, &task{step: step, service: s, conf: s.conf})
		}
	}
	for _, task := range tasks {
		switch task.step.Action {
		case StartIt, Replace, Drop:
			task.answer = make(chan error, 1)
		case ChangeInPlace, Keep:
		}
	}
	return tasks
}

// startOrder sorts tasks so that a dependency comes before its dependants: one
// that is not asked to start yet would seem never to come.
func startOrder(tasks []*task, update Update) []*task {
	place := make(map[config.Ref]int)
	for i, group := range (&config.Config{Services: update.Services}).StartOrder() {
		for _, ref := range group {
			place[ref] = i
		}
	}
	sorted := slices.Clone(tasks)
	slices.SortStableFunc(sorted, func(a, b *task) int { return place[a.step.Service] - place[b.step.Service] })
	return sorted
}

// step is one from where the service is now.
func (s *service) step(action Action, because []string) Step {
	step := Step{Service: s.conf.Ref(), Action: action, Because: because, State: s.state}
	if s.running != nil {
		step.PID = s.running.PID()
	}
	return step
}

// stepTo says what it takes for the service to be as conf says.
func (s *service) stepTo(conf config.Service, stale map[string]bool) (step Step) {
	difference := config.Compare(s.conf, conf)
	because, forces := difference.All(), difference.Replaces
	if s.running != nil && stale[s.running.ID()] {
		because, forces = append([]string{becauseBinary}, because...), append([]string{becauseBinary}, forces...)
	}
	switch {
	case s.dropped && (s.state == Stopping || s.atRest()):
		step = s.step(StartIt, because) // it is back
	case len(because) == 0:
		step = s.step(Keep, nil)
	case s.held:
		step = s.step(ChangeInPlace, because) // who stopped it starts it
	case s.atRest():
		step = s.step(StartIt, because)
	case len(forces) == 0:
		step = s.step(ChangeInPlace, because)
	case s.state == Waiting || s.state == Backoff:
		step = s.step(StartIt, because)
	default:
		step = s.step(Replace, because)
		step.Forces = forces
	}
	step.Changes = difference.Changes
	return step
}

// configured takes what a task says of the service's configuration.
func (s *service) configured(t *task) {
	if s.inUse() && !s.moved && s.conf.Port != t.conf.Port {
		s.moved, s.movedFrom = true, s.conf.Port
	}
	if t.step.Action == Drop {
		s.dropped, s.wanted = true, false
		return
	}
	if s.dropped {
		s.dropped, s.wanted = false, !s.held
		if s.state != Stopping {
			s.settleDown(fmt.Errorf("service %s is in the configuration again", s.conf.Ref()))
		}
	}
	health := s.conf.Health
	s.conf = t.conf
	if s.up() && s.conf.Health != health && t.step.Action == ChangeInPlace {
		s.healthChanged()
	}
}

// carryOut does what a task is about.
func (s *service) carryOut(t *task) {
	switch t.step.Action {
	case StartIt:
		s.startAsked(t.answer)
	case Replace:
		s.replaceAsked(t.answer, "it was changed: "+strings.Join(t.step.Because, ", "))
	case Drop:
		s.dropAsked(t.answer)
	case ChangeInPlace, Keep:
	}
}

// replaceAsked replaces the instance, also one that is only just starting: it
// does so with what was changed.
func (s *service) replaceAsked(done chan<- error, cause string) {
	s.onUp = append(s.onUp, done)
	s.wanted = true
	s.err = nil
	s.history = history{}
	switch s.state {
	case Starting:
		s.abort()
		s.enter(Stopping, cause)
	case Ready, Unhealthy:
		s.end(cause)
	case Stopping:
		s.exit = nil // the next instance is no retry
	default:
		s.begin(cause)
	}
}

// dropAsked ends a service that is not in the configuration any more, when
// nothing that is to go too depends on it.
func (s *service) dropAsked(done chan<- error) {
	if s.state == Removed { // with one that depended on it
		done <- nil
		return
	}
	s.onDown = append(s.onDown, done)
	s.settleUp(&UnknownServiceError{Ref: s.conf.Ref()})
	if s.atRest() {
		s.stopAsked(make(chan error, 1)) // once more, if something is left
	}
}

// stopCause says why the service is stopped.
func (s *service) stopCause() string {
	if s.dropped && !s.m.closing {
		return "it was taken out of the configuration"
	}
	return "stop was asked"
}

// dropNext stops each service that is to be dropped and on which nothing that
// still runs depends.
func (m *Manager) dropNext() {
	for _, s := range m.services {
		if s.dropped && !s.atRest() && s.state != Stopping && s.state != Removed && !m.needed(s) {
			s.stopAsked(make(chan error, 1))
		}
	}
}

// drop forgets a service of which nothing is left.
func (m *Manager) drop(s *service) {
	m.services = slices.DeleteFunc(slices.Clone(m.services), func(other *service) bool { return other == s })
	from := s.state
	s.state, s.since, s.cause = Removed, time.Now(), "it is not in the configuration any more"
	m.notify(Change{Status: s.status(), From: from})
}

// healthChanged has the instance's health checked as the configuration says
// now.
func (s *service) healthChanged() {
	if s.unwatch != nil {
		s.unwatch()
	}
	s.watchHealth(s.running)
	if s.conf.Health.Interval == 0 && s.state == Unhealthy {
		s.enter(Ready, "its health is not checked any more")
		s.m.dependencyReady(s)
	}
}
