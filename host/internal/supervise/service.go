package supervise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/plughost/plughost/host/internal/config"
)

// service is the state machine of one service. Its methods are called by the
// manager's loop alone, one for each event.
type service struct {
	m    *Manager
	conf config.Service

	state State
	since time.Time
	cause string
	err   error // the last failure

	wanted  bool // whether it should run
	runs    bool // it has a process already, which its first start will find
	held    bool // it was stopped by request, and only a request starts it
	dropped bool // it is not in the configuration any more
	starts  int  // also tells a late retry from a current one
	history history
	nextTry time.Time
	delay   time.Duration
	retry   *time.Timer        // in backoff, or until a stop is tried again
	resume  bool               // it is to run once what is left of it is gone
	abort   context.CancelFunc // while starting

	launching bool // a launch is under way, perhaps an aborted one
	queued    bool // it waits for its turn
	moved     bool // the instance was made before the last change, and has the port movedFrom
	movedFrom int

	running Instance // what is or may be left of; from ready until all is gone
	readyAt time.Time
	unwatch context.CancelFunc // ends the health checks; while up
	checks  int                // tells a late result of a health check from a current one
	sick    int                // health checks that failed in a row
	unwell  int                // health checks that failed, ever
	exit    *exit              // why the instance that is being ended was no good any more
	onUp    []chan<- error
	onDown  []chan<- error
}

// exit is how an instance ended by itself, or failed.
type exit struct {
	err      error
	status   int // -1: by a signal, or without one
	readyFor time.Duration
}

// startAsked makes the service run if it does not, forgetting past failures.
// done gets nil when it is ready, or why it is not.
func (s *service) startAsked(done chan<- error) {
	if s.dropped {
		done <- &UnknownServiceError{Ref: s.conf.Ref()}
		return
	}
	s.onUp = append(s.onUp, done)
	s.wanted, s.held = true, false
	s.err = nil
	s.history = history{}
	switch s.state {
	case Ready, Unhealthy:
		s.settleUp(nil)
	case Stopped, Failed, Backoff:
		s.begin("start was asked")
	case Waiting:
		s.settleHopeless()
	case Starting:
		// It is on its way.
	case Stopping:
		// It starts as soon as the old instance is gone, however that ended.
		s.exit = nil
	}
}

// stopAsked ends the service. done gets nil when nothing of it is left.
func (s *service) stopAsked(done chan<- error) {
	s.onDown = append(s.onDown, done)
	s.wanted, s.held = false, true
	s.settleUp(s.stoppedError())
	switch s.state {
	case Starting:
		s.abort()
		s.enter(Stopping, s.stopCause()+" during its start")
	case Ready, Unhealthy:
		s.end(s.stopCause())
	case Stopping:
		// The one under way is enough.
	case Failed, Waiting, Backoff:
		if s.running != nil {
			s.end("stop was asked again")
			return
		}
		s.stop(s.stopCause())
	case Stopped:
		s.settleDown(nil)
		if s.dropped {
			s.m.drop(s)
		}
	}
}

// stop is the end of a service of which nothing is left.
func (s *service) stop(cause string) {
	s.stopRetry()
	s.settleUp(s.stoppedError())
	s.settleDown(nil)
	s.enter(Stopped, cause)
}

// stoppedError is the answer to those who wanted a service to run that was
// stopped instead.
func (s *service) stoppedError() error {
	if s.m.closing {
		return ErrShuttingDown
	}
	return fmt.Errorf("service %s was stopped by request", s.conf.Ref())
}

// restartAsked replaces the instance. One that is only just starting is new
// enough.
func (s *service) restartAsked(done chan<- error) {
	if !s.up() || s.dropped {
		s.startAsked(done)
		return
	}
	s.onUp = append(s.onUp, done)
	s.wanted = true
	s.err = nil
	s.history = history{}
	s.end("restart was asked")
}

// begin launches the service, or has it wait for its dependencies.
func (s *service) begin(cause string) {
	s.stopRetry()
	if !s.wanted {
		s.stop("it is no longer wanted")
		return
	}
	if s.running != nil {
		// What an earlier stop could not end must go first.
		s.end(cause)
		return
	}
	hindrance := s.m.hindrance(s)
	switch {
	case s.runs:
		s.launch(cause)
		return
	case hindrance != "":
		s.leaveQueue()
	case s.m.admit(s):
		s.launch(cause)
		return
	}
	if s.state != Waiting {
		s.enter(Waiting, s.waitingFor())
	}
	s.settleHopeless()
	s.m.nextTurns()
}

// launch starts an instance.
func (s *service) launch(cause string) {
	ctx, cancel := context.WithCancel(context.Background())
	s.abort, s.runs = cancel, false
	s.starts++
	s.launching, s.moved = true, false
	s.m.launching++
	conf := s.conf // it may be changed meanwhile
	s.enter(Starting, cause)
	go func() {
		instance, err := s.m.start(ctx, conf)
		cancel()
		s.m.send(launchedEvent{s, instance, err})
	}()
}

func waitsFor(dependency *service) string {
	return fmt.Sprintf("waits for %s, which is %s", dependency.conf.Ref(), dependency.state)
}

// settleHopeless answers those who want a waiting service to run, if what it
// waits for will not come by itself. It waits on.
func (s *service) settleHopeless() {
	if blocker := s.m.blocker(s); blocker != nil {
		s.settleUp(fmt.Errorf("service %s %s", s.conf.Ref(), waitsFor(blocker)))
	}
}

// launched is the result of a launch.
func (s *service) launched(instance Instance, err error) {
	if err != nil {
		s.notLaunched(instance, fmt.Errorf("cannot start service %s: %w", s.conf.Ref(), err))
		return
	}
	s.running = instance
	switch s.state {
	case Stopping: // the abort came too late
		s.endInstance()
	default:
		s.readyAt = time.Now()
		s.watch(instance)
		s.enter(Ready, "it answers")
		s.settleUp(nil)
		s.m.dependencyReady(s)
	}
}

// notLaunched is the failure of a launch. instance is not nil if something is
// left of it, which is to be ended before the policy has its say.
func (s *service) notLaunched(instance Instance, err error) {
	failure := exit{err: err, status: statusOf(err)}
	switch {
	case instance != nil:
		s.running = instance
		if s.state != Stopping {
			s.exit = &failure
			s.enter(Stopping, err.Error())
		}
		s.endInstance()
	case s.state == Stopping: // it was aborted
		s.gone()
	default:
		s.failedWith(failure)
	}
}

// watch reports the instance's end by itself, and its health.
func (s *service) watch(instance Instance) {
	go func() {
		<-instance.Exited()
		s.m.send(exitedEvent{s, instance})
	}()
	s.watchHealth(instance)
}

// watchHealth has the instance's health checked until unwatch is called.
func (s *service) watchHealth(instance Instance) {
	ctx, cancel := context.WithCancel(context.Background())
	s.unwatch, s.sick = cancel, 0
	s.checks++
	if s.conf.Health.Interval > 0 {
		go s.checkHealth(ctx, instance, s.conf.Health, s.checks)
	}
}

// checkHealth asks for the instance's health again and again, until ctx ends.
func (s *service) checkHealth(ctx context.Context, instance Instance, conf config.Health, checks int) {
	due := time.NewTimer(untilCheck(time.Now(), conf.Interval))
	defer due.Stop()
	for {
		select {
		case now := <-due.C:
			due.Reset(untilCheck(now, conf.Interval))
		case <-ctx.Done():
			return
		}
		check, cancel := context.WithTimeoutCause(ctx, conf.Timeout, fmt.Errorf("no answer within %v", conf.Timeout))
		err := instance.Health(check)
		if err != nil && check.Err() != nil {
			err = context.Cause(check)
		}
		cancel()
		if ctx.Err() != nil {
			return
		}
		s.m.send(healthEvent{s, checks, err})
	}
}

// untilCheck is how long after now a health is to be checked: for an interval, or
// up to a tenth of it less, such that the checks of many services fall on the same
// moments. A host that has nothing to do wakes up once for all of them.
func untilCheck(now time.Time, interval time.Duration) time.Duration {
	return now.Add(interval).Truncate(interval / 10).Sub(now)
}

// healthChecked is the result of a health check. The first that fails makes the
// service unhealthy, the last that may fail is an end like any other.
func (s *service) healthChecked(checks int, err error) {
	switch {
	case !s.up() || s.checks != checks:
		return
	case err == nil:
		s.sick = 0
		if s.state == Unhealthy {
			s.enter(Ready, "it is healthy again")
			s.m.dependencyReady(s)
		}
		return
	}
	s.sick++
	s.unwell++
	if s.sick >= s.conf.Health.Failures {
		err = fmt.Errorf("service %s is unhealthy: %d health checks in a row failed, the last: %w", s.conf.Ref(), s.sick, err)
		s.exit = &exit{err: err, status: -1, readyFor: time.Since(s.readyAt)}
		s.end(err.Error())
		return
	}
	if s.state == Ready {
		s.enter(Unhealthy, "a health check failed: "+err.Error())
	}
}

// exited is the end of the plugin's process, asked for or not.
func (s *service) exited(instance Instance) {
	if !s.up() || s.running != instance {
		return // it is being stopped
	}
	waitErr := instance.ExitError()
	text := "exit status 0"
	if waitErr != nil {
		text = waitErr.Error()
	}
	err := fmt.Errorf("service %s ended: %s", s.conf.Ref(), text)
	s.exit = &exit{err: err, status: statusOf(waitErr), readyFor: time.Since(s.readyAt)}
	// Others of the instance may live on.
	s.end("its process ended: " + text)
}

// end has what is left of the instance ended.
func (s *service) end(cause string) {
	s.enter(Stopping, cause)
	s.endInstance()
}

func (s *service) endInstance() {
	if s.unwatch != nil {
		s.unwatch()
		s.unwatch = nil
	}
	instance, grace, ctx := s.running, s.conf.StopGrace, s.m.stopping
	go func() {
		_, err := instance.Stop(ctx, grace)
		s.m.send(endedEvent{s, err})
	}()
}

// leftCause is why a service is stopped whose instance is not.
const leftCause = "it runs on without the host"

// leave has the instance run on without the host.
func (s *service) leave() {
	if s.unwatch != nil {
		s.unwatch()
		s.unwatch = nil
	}
	s.wanted, s.running = false, nil
	s.enter(Stopped, leftCause)
}

// ended is the end of all that belonged to the instance or, with an error, the
// news that something survived.
func (s *service) ended(err error) {
	if err == nil {
		s.gone()
		return
	}
	err = fmt.Errorf("cannot stop service %s: %w", s.conf.Ref(), err)
	if s.exit != nil {
		err = fmt.Errorf("%w; it is stopped because of this: %w", err, s.exit.err)
	}
	s.exit = nil
	s.stuck(err)
}

// stopAgain is how long it takes until a stop that left something is tried again.
const stopAgain = 30 * time.Second

// stuck is a failure after which something of the instance is left. What was in
// the way of its end may pass: a process that waits for a disk, or the host's own
// want of descriptors. So the stop is tried again, and until then the service is
// Failed.
func (s *service) stuck(err error) {
	s.resume = s.wanted
	if !s.m.closing {
		s.again(stopAgain)
	}
	s.giveUp(err)
}

// again sets the next try.
func (s *service) again(delay time.Duration) {
	launch := s.starts
	s.delay, s.nextTry = delay, time.Now().Add(delay)
	s.retry = time.AfterFunc(delay, func() { s.m.send(retryEvent{s, launch}) })
}

// gone says what comes when nothing of the instance is left.
func (s *service) gone() {
	exit := s.exit
	s.running, s.exit, s.moved = nil, nil, false
	s.settleDown(nil) // also if a start was asked meanwhile
	switch {
	case exit != nil && s.wanted:
		s.failedWith(*exit)
	case s.wanted:
		s.begin("it is to run, and the instance before is gone")
	default:
		s.stop("it was stopped")
	}
}

// failedWith asks the restart policy what comes after a failure of which
// nothing is left.
func (s *service) failedWith(e exit) {
	s.err = e.err
	if !s.wanted {
		s.stop("it is no longer wanted")
		return
	}
	if !applies(s.conf.Restart.Policy, e.status) {
		if e.status == 0 {
			s.wanted, s.err = false, nil
			s.settleUp(fmt.Errorf("service %s ended by itself", s.conf.Ref()))
			s.stop("it ended by itself, and restart.policy is " + s.conf.Restart.Policy)
			return
		}
		s.giveUp(e.err)
		return
	}
	now := time.Now()
	decision := s.history.next(s.conf.Restart, now, e.readyFor, s.m.random())
	if !decision.retry {
		s.giveUp(fmt.Errorf("gave up after %d failures within %v, the last: %w",
			s.conf.Restart.Limit+1, s.conf.Restart.Within, e.err))
		return
	}
	s.again(decision.delay)
	s.enter(Backoff, e.err.Error())
	s.settleUp(fmt.Errorf("%w; the next try is in %v", e.err, decision.delay.Round(time.Millisecond)))
	s.m.dependencyFailed(s)
}

// giveUp is a failure after which the service is not started again, unless by
// request or because it is stuck no more.
func (s *service) giveUp(err error) {
	s.wanted, s.err = false, err
	s.settleUp(err)
	s.settleDown(err) // those who stop it wait only if something is left
	s.enter(Failed, err.Error())
}

// retryDue is the end of the delay after a failure.
func (s *service) retryDue(launch int) {
	switch {
	case launch != s.starts:
	case s.state == Backoff:
		s.begin("its delay is over")
	case s.state == Failed && s.running != nil && !s.m.closing:
		s.wanted = s.resume
		s.end("its stop is tried again")
	}
}

// dependencyReady is news for a service that waits.
func (s *service) dependencyReady() {
	if s.state == Waiting {
		s.begin("its dependencies are ready")
	}
}

// dependencyFailed answers those who want a waiting service to run, as who starts
// one that fails is answered: what it waits for was tried, and may fail for ever.
// It waits on.
func (s *service) dependencyFailed(dependency *service) {
	s.settleUp(fmt.Errorf("service %s %s: %w", s.conf.Ref(), waitsFor(dependency), dependency.err))
}

func (s *service) stopRetry() {
	if s.retry != nil {
		s.retry.Stop()
		s.retry = nil
	}
	s.delay, s.nextTry = 0, time.Time{}
}

// enter changes the state and tells whoever watches.
func (s *service) enter(state State, cause string) {
	from := s.state
	s.state, s.since, s.cause = state, time.Now(), cause
	change := Change{Status: s.status(), From: from}
	if s.up() {
		change.Running = s.running
	}
	if state != Waiting {
		s.leaveQueue()
	}
	s.m.notify(change)
	if !s.atRest() {
		return
	}
	if s.dropped && state == Stopped {
		s.m.drop(s)
	}
	s.m.atRest()
}

// up reports whether the instance runs and is to go on.
func (s *service) up() bool {
	return s.state == Ready || s.state == Unhealthy
}

// atRest reports whether nothing of the service runs, nor will by itself.
func (s *service) atRest() bool {
	return s.state == Stopped || s.state == Failed
}

func (s *service) settleUp(err error)   { settle(&s.onUp, err) }
func (s *service) settleDown(err error) { settle(&s.onDown, err) }

// settle answers all who wait; each has room for its one answer.
func settle(waiting *[]chan<- error, err error) {
	for _, done := range *waiting {
		done <- err
	}
	*waiting = nil
}

func (s *service) status() Status {
	status := Status{
		Service:  s.conf.Ref(),
		State:    s.state,
		Since:    s.since,
		Cause:    s.cause,
		Port:     s.port(),
		Restarts: max(0, s.starts-1),
		NextTry:  s.nextTry,
		Delay:    s.delay,

		SecretCommand: s.conf.SecretCommand(),
	}
	status.HealthFailures = s.unwell
	if s.running != nil {
		status.Instance, status.PID = s.running.ID(), s.running.PID()
	}
	if s.state == Waiting {
		status.Cause = cmp.Or(s.waitingFor(), s.cause)
	}
	if s.err != nil {
		status.LastError = s.err.Error()
	}
	return status
}

// statusOf is the exit status behind an error: of a wait (an *exec.ExitError or
// a *launch.ExitError), or of a launch that ended with the process.
func statusOf(err error) int {
	var exitErr interface {
		error
		ExitCode() int
	}
	var permanent interface{ Permanent() bool }
	switch {
	case errors.As(err, &permanent) && permanent.Permanent():
		return exitConfig // as good as the plugin's own word that it is useless
	case err == nil:
		return 0
	case errors.As(err, &exitErr):
		return exitErr.ExitCode()
	default:
		return -1
	}
}
