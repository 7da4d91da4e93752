package probes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/plughost/plughost/shared/marker"
)

// Settle is how long a stop waits, after it sent the forced signal, for the
// last of the processes to go.
const Settle = 5 * time.Second

// Record is what is known of a process that was launched.
type Record struct {
	PID      int             `json:"pid"`
	Birth    Birth           `json:"birth,omitzero"`
	Identity marker.Identity `json:"identity"`
	// Group says that the process was started as the leader of a process group
	// of its own, so that the group is ended with it.
	Group bool `json:"group"`
}

// Outcome is what a stop came to.
type Outcome int

// The outcomes.
const (
	OutcomeUnknown    Outcome = iota // the recorded process could not be identified; nothing was signalled
	OutcomeNotRunning                // the recorded process was gone
	OutcomeNotOurs                   // the pid is another process's now, which was not signalled
	OutcomeStopped                   // the recorded process was ours, and all is gone
	OutcomeFailed                    // the recorded process was ours; the error says what is left
)

// String returns the outcome in lower case.
func (o Outcome) String() string {
	switch o {
	case OutcomeNotRunning:
		return "not running"
	case OutcomeNotOurs:
		return "not ours"
	case OutcomeStopped:
		return "stopped"
	case OutcomeFailed:
		return "failed"
	default:
		return "unknown"
	}
}

// MarshalText encodes the outcome as String does.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// How says what it took to end an instance.
type How int

// The ways to end, each one harsher than the one before.
const (
	HowNone       How = iota // nothing was attempted: the outcome is OutcomeUnknown
	AlreadyExited            // nothing was left to end
	Exited                   // all exited within the grace
	Killed                   // at least one had to be killed
)

// String returns the way in lower case.
func (h How) String() string {
	switch h {
	case AlreadyExited:
		return "already exited"
	case Exited:
		return "exited"
	case Killed:
		return "killed"
	default:
		return "none"
	}
}

// MarshalText encodes the way as String does.
func (h How) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// Result is what a stop did.
type Result struct {
	Outcome Outcome `json:"outcome"`
	How     How     `json:"how"`
	Proof   Proof   `json:"proof,omitzero"` // on the recorded process
	// Swept are the pids of other processes of the instance that were alive
	// and are gone: children, group members, daemons.
	Swept []int `json:"swept,omitempty"`
}

// SurvivorsError names the processes that a stop could not end: those still
// alive at its absolute end.
type SurvivorsError struct {
	PIDs []int
	// Err is why signals failed, nil if they were sent and had no effect yet.
	Err error
}

// Error names the survivors.
func (e *SurvivorsError) Error() string {
	pids := make([]string, len(e.PIDs))
	for i, pid := range e.PIDs {
		pids[i] = fmt.Sprint(pid)
	}
	s := "still alive after the forced signal: pid " + strings.Join(pids, ", ")
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns why signals failed.
func (e *SurvivorsError) Unwrap() error { return e.Err }

// Stop ends a whole instance: the recorded process, the process group that it
// was started to lead, and whatever else carries the instance's marker.
//
// The recorded process is held first and identified then. If it can't be
// identified the outcome is OutcomeUnknown, with the reason in Result.Proof,
// and nothing at all is signalled. If it is gone, or its pid is a stranger's
// now, the outcome says so, and what is left of the instance is still ended:
// its other processes prove themselves by their marker.
//
// What is ended gets the polite signal at once: its group through the process,
// every other one through a hold of its own, after its identity was read
// through that hold. When the grace is over the forced signal follows, and then
// more searches, until one shows that nothing carries the marker and the group
// is empty. A zombie counts as exited; nothing is reaped.
//
// Stop leaves no job half done: the end of ctx cuts the grace short, and the
// forced signal follows at once. After that it takes at most Settle. If
// processes are still alive then, the error is a *SurvivorsError; any other
// error means that it could not be verified that nothing is left. ErrInvalidPID
// and ErrSelf refuse the record.
//
// A grace of zero or less skips the polite signal. If nobody can be sent it, as
// on Windows without a common console, the grace is not waited for.
func Stop(ctx context.Context, r Record, grace time.Duration) (Result, error) {
	reach(stepOpen)
	p, err := Open(r.PID)
	switch {
	case err == nil:
		defer p.Close()
	case errors.Is(err, ErrGone):
		return sweepRecord(ctx, r, grace, Result{Outcome: OutcomeNotRunning, Proof: unknown(err)})
	case errors.Is(err, ErrInvalidPID), errors.Is(err, ErrSelf):
		return Result{}, err
	default:
		return Result{Outcome: OutcomeUnknown, Proof: unknown(err)}, nil
	}
	reach(stepOpened)
	proof := p.Identify(Expect{Identity: r.Identity, Birth: r.Birth})
	reach(stepIdentified)
	switch {
	case proof.Verdict == Ours:
		return stopProven(ctx, p, r, grace, proof)
	case proof.Verdict == NotOurs:
		return sweepRecord(ctx, r, grace, Result{Outcome: OutcomeNotOurs, Proof: proof})
	case p.Exited():
		return sweepRecord(ctx, r, grace, Result{Outcome: OutcomeNotRunning, Proof: proof})
	}
	return Result{Outcome: OutcomeUnknown, Proof: proof}, nil
}

// StopHeld is Stop for a caller that has held the process since it started it,
// which proves that it is the caller's own. Where Capabilities.HeldGroup is
// true the group is found even if the process has exited and was reaped. The
// process stays open. A pid or birth record in r that is another process's is
// refused with an error.
func StopHeld(ctx context.Context, p *Process, r Record, grace time.Duration) (Result, error) {
	if r.PID != 0 && r.PID != p.PID() {
		return Result{}, fmt.Errorf("the record is of process %d, not %d", r.PID, p.PID())
	}
	proof := Proof{Verdict: Ours, By: ByHolder, Identity: r.Identity, Birth: r.Birth}
	if birth, err := p.Birth(); err == nil {
		if !r.Birth.IsZero() && !birth.Same(r.Birth) {
			return Result{}, fmt.Errorf("the record is not of process %d: %s", p.PID(), birth.difference(r.Birth))
		}
		proof.Birth = birth
	}
	return stopProven(ctx, p, r, grace, proof)
}

// Sweep ends every process that List would return for f, as Stop ends the
// processes of an instance. The outcome is OutcomeStopped, OutcomeNotRunning if
// there was none, or OutcomeFailed with an error.
func Sweep(ctx context.Context, f Filter, grace time.Duration) (Result, error) {
	if err := f.check(); err != nil {
		return Result{}, err
	}
	result, err := (&job{filter: f}).run(ctx, grace, Result{Outcome: OutcomeNotRunning})
	switch {
	case err != nil:
		result.Outcome = OutcomeFailed
	case len(result.Swept) > 0:
		result.Outcome = OutcomeStopped
	}
	return result, err
}

func stopProven(ctx context.Context, p *Process, r Record, grace time.Duration, proof Proof) (Result, error) {
	j := &job{leader: p, filter: r.filter(), group: r.Group && leads(p)}
	result, err := j.run(ctx, grace, Result{Outcome: OutcomeStopped, Proof: proof})
	if err != nil {
		result.Outcome = OutcomeFailed
	}
	return result, err
}

// sweepRecord ends what is left of an instance whose recorded process is gone.
func sweepRecord(ctx context.Context, r Record, grace time.Duration, result Result) (Result, error) {
	j := &job{filter: r.filter()}
	return j.run(ctx, grace, result)
}

// filter selects the processes of the record's instance; it is zero if they
// can't be told from others.
func (r Record) filter() Filter {
	if r.Identity.Kind == marker.KindHost || r.Identity.Instance == "" {
		return Filter{}
	}
	return Filter{Installation: r.Identity.Installation, Instance: r.Identity.Instance}
}

// leads reports whether a process leads a group, or did, that can be signalled
// through it. The caller's own group is none.
func leads(p *Process) bool {
	err := p.SignalGroup(0)
	return err == nil || errors.Is(err, ErrGone) || errors.Is(err, ErrPermission)
}
