package probes

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/plughost/plughost/shared/marker"
)

// Verdict says whether a process is the caller's own.
type Verdict int

// The verdicts. Only a process that is Ours may be signalled.
const (
	Unknown Verdict = iota // it could not be told
	Ours                   // proven
	NotOurs                // disproven
)

// String returns the verdict in lower case.
func (v Verdict) String() string {
	switch v {
	case Ours:
		return "ours"
	case NotOurs:
		return "not ours"
	default:
		return "unknown"
	}
}

// MarshalText encodes the verdict as String does.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// What a verdict can rest on, the values of Proof.By.
const (
	ByMarker = "marker"
	ByBirth  = "birth record"
	ByHolder = "held since it was started"
)

// Expect is what a process should be.
type Expect struct {
	Identity marker.Identity // empty fields agree with everything
	Birth    Birth           // the zero value is not known
}

// Proof is a verdict with what it rests on.
type Proof struct {
	Verdict Verdict `json:"verdict"`
	// By is ByMarker or ByBirth or ByHolder; empty if the verdict is Unknown.
	By string `json:"by,omitempty"`
	// Reason says in words why the verdict is not Ours.
	Reason string `json:"reason,omitempty"`
	// Identity is what the process's own marker says, zero if that was not read.
	Identity marker.Identity `json:"identity,omitzero"`
	// Birth is the process's birth record, zero if it could not be had.
	Birth Birth `json:"birth,omitzero"`
	// Err is the error behind an unknown verdict, such as ErrGone or EMFILE.
	Err error `json:"-"`
}

func unknown(err error) Proof { return Proof{Reason: err.Error(), Err: err} }

// looks is how often the environment is read before a doubt counts, and
// firstPause how long the pause is after the second look; it doubles with each
// one, so that all together they take 50 ms at most.
const (
	looks      = 10
	firstPause = 100 * time.Microsecond
)

// environ is one look at a process's environment.
type environ struct {
	block []byte
	// forked: the process executed nothing since it was forked. The block is
	// its parent's; if it is just being spawned its own will follow.
	forked bool
	// lent is the buffer that block lies in, to be used again, where there is one.
	lent *[]byte
}

// blocks are buffers for environments.
var blocks = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// release gives the buffer back. The block must not be used any more.
func (e environ) release() {
	const most = 256 << 10
	if e.lent != nil && len(*e.lent) <= most {
		blocks.Put(e.lent)
	}
}

// errAgain marks a failure that may be due to a moment of exec.
type errAgain struct{ error }

func (e errAgain) Unwrap() error { return e.error }

// Marker returns what the process's environment says of it. The error is that
// of marker.Parse, or wraps ErrGone if the process has exited, or wraps
// ErrUnreadable, together with ErrPermission if the system withholds it.
//
// On Linux it reads /proc/PID/environ, which shows the block of the last exec
// as it now lies in the process's memory: a process that overwrote it is
// unreadable. In the midst of an exec the file is empty or denied even to root,
// and before its first exec a child shows the block of its parent. In these
// cases the reading is repeated, for 50 ms at most. A process that still
// executed nothing then is taken to be a working copy of its parent and carries
// its parent's marker, unless that is a host's: hosts do not copy themselves.
//
// macOS and FreeBSD tell by sysctl, KERN_PROCARGS2 and kern.proc.env, by the
// same rules; two readings have to be the same. macOS withholds the environments
// of its own programs, even from root.
//
// On Windows the block is read out of the process's memory, and is the live one:
// what a process unsets is gone from it. That of a process whose pointers are of
// another width than the caller's is unreadable.
func (p *Process) Marker() (marker.Identity, error) {
	var id marker.Identity
	err := p.use("marker", func(h handle) (err error) {
		id, err = readMarker(h, looks)
		return err
	})
	return id, err
}

// readMarker reads the environment up to n times.
func readMarker(h handle, n int) (marker.Identity, error) {
	for i := 1; ; i++ {
		id, err := lookOnce(h)
		var again errAgain
		if !errors.As(err, &again) {
			return id, err
		}
		if i == n {
			// The doubt stays: with a forked process's, which is an answer,
			// or with the failure.
			return settle(id, again.error)
		}
		if gone, err := h.exited(); err == nil && gone {
			return marker.Identity{}, ErrGone
		}
		if i == 1 {
			runtime.Gosched()
		} else {
			time.Sleep(firstPause << (i - 2))
		}
	}
}

// errForked marks the identity of a process that executed nothing so far.
var errForked = errors.New("executed nothing since it was forked")

// settle turns a doubt that stayed into an answer.
func settle(id marker.Identity, doubt error) (marker.Identity, error) {
	if !errors.Is(doubt, errForked) {
		return marker.Identity{}, doubt
	}
	switch {
	case id.Kind == marker.KindHost:
		return marker.Identity{}, fmt.Errorf("%w: child of a host, %w", ErrUnreadable, errForked)
	case id.IsZero():
		var parsed errParsed
		errors.As(doubt, &parsed)
		return id, parsed.error
	}
	return id, nil
}

// errParsed carries the parser's verdict on a forked process's block.
type errParsed struct{ error }

// lookOnce reads the environment once. An error that is errAgain comes with
// what was read, if it was readable.
func lookOnce(h handle) (marker.Identity, error) {
	env, err := h.environ()
	if err != nil {
		return marker.Identity{}, err
	}
	defer env.release()
	id, err := marker.Parse(env.block)
	if env.forked {
		if err != nil {
			err = errors.Join(errForked, errParsed{err})
		} else {
			err = errForked
		}
		return id, errAgain{err}
	}
	if errors.Is(err, marker.ErrUnmarked) && !plausible(env.block) {
		return marker.Identity{}, errAgain{fmt.Errorf("%w: it was overwritten", ErrUnreadable)}
	}
	return id, err
}

// plausible reports whether a block without marker variables is an environment
// at all. An empty one, if it gets here, is known to be truly empty.
func plausible(block []byte) bool {
	if len(block) == 0 {
		return true
	}
	start := 0
	for i, c := range block {
		switch c {
		case 0:
			start = i + 1
		case '=':
			if i > start {
				return true
			}
		}
	}
	return false
}

// Identify says whether the process is what e expects.
//
// The birth record has the first word: if e has one and the process's own
// differs from it, this is another process, and so not ours whatever its
// environment says; if they are the same it is ours, even if its environment
// is withheld, overwritten or changed by an exec. Without a birth record on
// either side the marker decides: it must name an installation or an instance
// that e asks for, and agree with e in every field that e sets.
//
// A process that has exited meanwhile is Unknown, with ErrGone in Proof.Err,
// unless its birth record was still to be had.
func (p *Process) Identify(e Expect) Proof {
	var proof Proof
	err := p.use("identity", func(h handle) error {
		proof = identify(h, e)
		return nil
	})
	if err != nil {
		return unknown(err)
	}
	return proof
}

func identify(h handle, e Expect) Proof {
	birth, birthErr := h.birth()
	proof := Proof{Birth: birth}
	if !e.Birth.IsZero() && birthErr == nil {
		proof.By = ByBirth
		if !birth.Same(e.Birth) {
			proof.Verdict = NotOurs
			proof.Reason = "another process: " + birth.difference(e.Birth)
			return proof
		}
		proof.Verdict = Ours
		// Only told, not needed: one look is enough.
		proof.Identity, _ = readMarker(h, 1)
		return proof
	}
	if e.Identity.Installation == "" && e.Identity.Instance == "" {
		err := birthErr
		if err == nil {
			err = errors.New("nothing is known that could prove it")
		}
		return Proof{Birth: birth, Reason: err.Error(), Err: err}
	}
	id, err := readMarker(h, looks)
	if err != nil {
		// What was read is a living process's; a failure may be the end of it.
		if exited, exitErr := h.exited(); exitErr == nil && exited {
			err = ErrGone
		}
	}
	switch {
	case err == nil && id.Matches(e.Identity):
		proof.Verdict, proof.By, proof.Identity = Ours, ByMarker, id
	case err == nil:
		proof.Verdict, proof.By, proof.Identity = NotOurs, ByMarker, id
		proof.Reason = "its marker says " + id.String()
	case errors.Is(err, marker.ErrUnmarked) || errors.Is(err, marker.ErrMalformed):
		proof.Verdict, proof.By = NotOurs, ByMarker
		proof.Reason = err.Error()
	default:
		proof.Reason, proof.Err = err.Error(), err
	}
	return proof
}
