package probes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// rescan is how long a stop waits, after the forced signal, for known
	// processes before it looks for new ones.
	rescan = 100 * time.Millisecond
	// respite is the pause after a search that failed.
	respite = 10 * time.Millisecond
)

// job is one stop in progress.
type job struct {
	leader *Process // nil if the recorded process is gone
	group  bool     // the leader leads a group, or did, that is to be ended
	filter Filter   // of the instance; the zero value selects nothing

	crew    map[int]*Process // the other live processes, by pid
	ended   []int            // pids of those that were in the crew
	refused map[*Process]error
	alive   bool // somebody was alive
	forcing bool // the grace is over
	forced  bool // and somebody was still alive then
}

// errRefused says that nothing that is left can be signalled.
var errRefused = errors.New("signals are refused")

// run ends everything and completes the result.
func (j *job) run(ctx context.Context, grace time.Duration, result Result) (Result, error) {
	j.crew = make(map[int]*Process)
	j.refused = make(map[*Process]error)
	defer j.close()
	j.alive = j.leader != nil && !j.leader.Exited()

	// Who there is has to be known before anybody is signalled. Even a
	// canceled stop looks; it takes milliseconds. If this fails, so does a
	// later search, which counts.
	_, _ = j.search(context.WithoutCancel(ctx))
	reach(stepSearched)
	err := errGrace
	if grace > 0 {
		err = j.politely(ctx, grace)
	}
	if err != nil {
		err = j.byForce(ctx)
	}
	j.retire()
	result.Swept = j.ended
	switch {
	case j.forced:
		result.How = Killed
	case j.alive:
		result.How = Exited
	default:
		result.How = AlreadyExited
	}
	if left := j.live(); len(left) > 0 {
		return result, j.survivors(left)
	}
	if err != nil {
		return result, fmt.Errorf("it can't be verified that nothing is left: %w", err)
	}
	return result, nil
}

// errGrace says that the grace is over, errPatience that end's patience is.
var (
	errGrace    = errors.New("grace is over")
	errPatience = errors.New("patience is over")
)

// politely sends the polite signal and waits for the grace.
func (j *job) politely(ctx context.Context, grace time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, grace, errGrace)
	defer cancel()
	grouped := j.signalLeader(handle.ask)
	for _, p := range j.crew {
		if !grouped || !j.inGroup(p) {
			j.signal(p, handle.ask)
		}
	}
	reach(stepAsked)
	return j.end(ctx, grace, handle.ask)
}

// byForce sends the forced signal, again and again, and waits for Settle.
func (j *job) byForce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Settle)
	defer cancel()
	j.forcing = true
	clear(j.refused) // who can't be asked may still be ended
	for {
		j.forced = j.forced || len(j.live()) > 0
		reach(stepForce)
		j.signalLeader(handle.kill)
		for _, p := range j.crew {
			j.signal(p, handle.kill)
		}
		reach(stepForced)
		err := j.end(ctx, rescan, handle.kill)
		if err == nil || errors.Is(err, errRefused) || errors.Is(err, errors.ErrUnsupported) || ctx.Err() != nil {
			return err
		}
	}
}

// signalLeader signals the leader and its group. It reports whether the group
// was reached.
func (j *job) signalLeader(send func(handle, bool) error) bool {
	if j.leader == nil {
		return false
	}
	if j.group {
		err := j.leader.use("signal group", func(h handle) error { return send(h, true) })
		if err == nil {
			return true
		}
	}
	if !j.leader.Exited() {
		j.signal(j.leader, send)
	}
	return false
}

// signal signals one process.
func (j *job) signal(p *Process, send func(handle, bool) error) {
	err := p.use("signal", func(h handle) error { return send(h, false) })
	if err == nil || errors.Is(err, ErrGone) {
		delete(j.refused, p)
		return
	}
	j.refused[p] = err
}

// end waits until all known processes are gone, and signals and waits for those
// that a search then still finds, until there are none. It gives up when they
// are not gone within patience; a search takes what it takes.
//
// A single search proves that if no process was born meanwhile; otherwise one
// may have slipped through, by forking behind the search and exiting before it,
// and a second search has to find nothing as well.
func (j *job) end(ctx context.Context, patience time.Duration, send func(handle, bool) error) error {
	clean := 0
	for {
		left := j.live()
		if j.allRefused(left) {
			return errRefused
		}
		err := j.wait(ctx, patience, left)
		if errors.Is(err, errPatience) {
			return err
		}
		if err == nil {
			born, known := lastBorn()
			var fresh []*Process
			fresh, err = j.search(ctx)
			if len(fresh) > 0 {
				reach(stepFound)
				for _, p := range fresh {
					j.signal(p, send)
				}
				reach(stepFoundSignalled)
			}
			after, still := lastBorn()
			clean++
			if err != nil || len(fresh) > 0 {
				clean = 0
			}
			if quiet := known && still && born == after; clean == 2 || clean == 1 && quiet {
				return nil
			}
		}
		if errors.Is(err, errors.ErrUnsupported) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			// For want of means, it is to be hoped, that passes.
			_ = sleep(ctx, respite)
		}
	}
}

// search looks for processes of the instance and its group that are not known
// yet, and takes them into the crew.
func (j *job) search(ctx context.Context) ([]*Process, error) {
	j.retire()
	var fresh []*Process
	take := func(p *Process) {
		known := j.crew[p.PID()]
		isLeader := j.leader != nil && p.PID() == j.leader.PID() && !j.leader.Exited()
		if isLeader || known != nil && !known.Exited() {
			_ = p.Close()
			return
		}
		if known != nil {
			j.dismiss(known)
		}
		j.crew[p.PID()] = p
		j.alive = true
		j.forced = j.forced || j.forcing
		fresh = append(fresh, p)
	}
	var errs []error
	if j.filter != (Filter{}) {
		errs = append(errs, scan(ctx, j.filter, func(p *Process, _ Found) { take(p) }))
	}
	if j.group {
		var members []*Process
		errs = append(errs, j.leader.use("group", func(h handle) (err error) {
			members, err = h.groupMembers(ctx)
			return err
		}))
		for _, p := range members {
			take(p)
		}
	}
	return fresh, errors.Join(errs...)
}

func (j *job) inGroup(p *Process) bool {
	pgid, err := p.Group()
	return err == nil && pgid == j.leader.PID()
}

// live returns the processes that have not exited.
func (j *job) live() []*Process {
	var left []*Process
	if j.leader != nil && !j.leader.Exited() {
		left = append(left, j.leader)
	}
	for _, p := range j.crew {
		if !p.Exited() {
			left = append(left, p)
		}
	}
	return left
}

// retire dismisses those of the crew that have exited.
func (j *job) retire() {
	for _, p := range j.crew {
		if p.Exited() {
			j.dismiss(p)
		}
	}
}

func (j *job) dismiss(p *Process) {
	delete(j.crew, p.PID())
	delete(j.refused, p)
	_ = p.Close()
	if j.leader != nil && p.PID() == j.leader.PID() {
		return // found a moment before it exited
	}
	j.ended = append(j.ended, p.PID())
	slices.Sort(j.ended)
	j.ended = slices.Compact(j.ended)
}

// allRefused reports that somebody is left, and nobody who takes signals.
func (j *job) allRefused(left []*Process) bool {
	if len(left) == 0 {
		return false
	}
	for _, p := range left {
		err := j.refused[p]
		if !errors.Is(err, ErrPermission) && !errors.Is(err, errors.ErrUnsupported) {
			return false
		}
	}
	return true
}

// wait waits until all of the processes have exited.
func (j *job) wait(ctx context.Context, patience time.Duration, left []*Process) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errPatience)
	defer cancel()
	for _, p := range left {
		reach(stepWaiting)
		if err := p.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (j *job) survivors(left []*Process) *SurvivorsError {
	e := &SurvivorsError{}
	var errs []error
	for _, p := range left {
		e.PIDs = append(e.PIDs, p.PID())
		if err := j.refused[p]; err != nil {
			errs = append(errs, err)
		}
	}
	slices.Sort(e.PIDs)
	e.Err = errors.Join(errs...)
	return e
}

func (j *job) close() {
	for _, p := range j.crew {
		_ = p.Close()
	}
}

// sleep pauses, or returns the cause of ctx's end.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
