package probes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plughost/plughost/shared/marker"
)

// glance is what a quick look at an environment tells.
type glance int

const (
	glanceNo     glance = iota // not what is looked for
	glanceMaybe                // worth being examined
	glanceEmpty                // perhaps in the midst of an exec
	glanceDenied               // perhaps the same, perhaps for good
)

// Doubtful processes are looked at again in rounds, with pauses that double:
// deniedRounds make 6 ms, emptyRounds 51 ms together.
const (
	firstRound   = 200 * time.Microsecond
	deniedRounds = 5
	emptyRounds  = 8
)

// maxExaminations is how many processes a scan examines at a time, and so how many
// it holds beside those that it has handed over.
const maxExaminations = 64

// scanner goes over /proc. It looks at environments by pid, without a hold on
// the process, which is cheap and decides nothing: whatever might be sought is
// opened and examined, at once, as it may be gone in a moment. An examination
// takes some pauses if the process has executed nothing since it was forked, like
// the workers of many servers, so these do not wait for one another.
type scanner struct {
	sight
	filter Filter

	examinations sync.WaitGroup
	examining    chan struct{} // has room for maxExaminations

	mu            sync.Mutex // of all below
	visit         func(*Process, Found)
	empty, denied []int // doubtful processes
	errs          []error
}

func scanProcesses(ctx context.Context, f Filter, visit func(*Process, Found)) error {
	proc, err := listProc()
	if err != nil {
		return err
	}
	defer unix.Close(proc)
	s := &scanner{
		sight: sightOf(proc, f.needle()), filter: f, visit: visit,
		examining: make(chan struct{}, maxExaminations),
	}
	err = overAll(proc, func(pids []int) error { return s.pass(ctx, pids) })
	pause := firstRound
	for round := 1; ; round++ {
		s.examinations.Wait()
		if err != nil {
			return err
		}
		if round > deniedRounds {
			s.denied = nil
		}
		doubtful := slices.Concat(s.empty, s.denied)
		if round > emptyRounds || len(doubtful) == 0 {
			return errors.Join(s.errs...)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		pause *= 2
		s.empty, s.denied = nil, nil
		err = s.pass(ctx, doubtful)
	}
}

// needle returns what the block of a process that f asks for contains.
func (f Filter) needle() string {
	switch {
	case f.everyone:
		return marker.Prefix
	case f.Instance != "":
		return f.Instance
	default:
		return f.Installation
	}
}

// pass glances at each of the processes, examines those that may be sought, and
// notes the doubtful ones.
func (s *scanner) pass(ctx context.Context, pids []int) error {
	g := glancers.Get().(*glancer)
	defer g.release()
	g.sight = s.sight
	for i, pid := range pids {
		if i%64 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if pid == ownPID {
			continue
		}
		seen, err := g.glance(pid)
		if err != nil {
			return fmt.Errorf("process %d: %w", pid, err)
		}
		switch seen {
		case glanceMaybe:
			s.examining <- struct{}{}
			s.examinations.Go(func() {
				defer func() { <-s.examining }()
				s.examine(pid)
			})
		case glanceEmpty:
			s.mu.Lock()
			s.empty = append(s.empty, pid)
			s.mu.Unlock()
		case glanceDenied:
			s.mu.Lock()
			s.denied = append(s.denied, pid)
			s.mu.Unlock()
		}
	}
	return nil
}

// sight is what glances are for, and under which conditions.
type sight struct {
	needle []byte // what a sought block contains
	proc   int    // the open directory
	trace  bool   // may look into every process
	euid   int
}

func sightOf(proc int, needle string) sight {
	return sight{needle: []byte(needle), proc: proc, trace: canTrace(), euid: os.Geteuid()}
}

// glancer takes quick looks at processes that are not held. It allocates nothing
// for each of them.
type glancer struct {
	sight
	buf []byte // for environments
}

var glancers = sync.Pool{New: func() any { return &glancer{buf: make([]byte, 64<<10)} }}

// release gives the glancer back. A process with a huge environment must not cost
// memory for ever.
func (g *glancer) release() {
	const most = 1 << 20
	if len(g.buf) <= most {
		glancers.Put(g)
	}
}

// glance looks at an environment. It fails only if no process could be looked
// at, for lack of descriptors for instance.
func (g *glancer) glance(pid int) (glance, error) {
	var path [pathSize]byte
	block, bigger, err := readEnviron(g.proc, string(appendPath(path[:0], pid, "environ")), g.buf)
	g.buf = bigger
	switch {
	case err == nil && len(block) > 0:
		if marker.Scan(block) && bytes.Contains(block, g.needle) {
			return glanceMaybe, nil
		}
		return glanceNo, nil
	case err == nil, errors.Is(err, unix.ESRCH):
		return g.whyEmpty(pid), nil
	case errors.Is(err, errCut):
		return glanceEmpty, nil
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return g.whyDenied(pid), nil
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM):
		return glanceNo, err
	default:
		return glanceNo, nil
	}
}

// stat reads the state of a process that is not held.
func (g *glancer) stat(pid int) (stat, bool) {
	var path [pathSize]byte
	var buf [2048]byte
	line, err := readRecord(g.proc, string(appendPath(path[:0], pid, "stat")), buf[:])
	if err != nil {
		return stat{}, false
	}
	// The name is not needed, and would be memory for each process.
	st, err := parseStatFields(line[bytes.LastIndexByte(line, ')')+1:])
	return st, err == nil
}

// whyEmpty says why an environment was empty.
func (g *glancer) whyEmpty(pid int) glance {
	st, ok := g.stat(pid)
	switch {
	case !ok, st.kernel(), st.noEnviron(), st.dead() && st.threads <= 1:
		return glanceNo
	case st.dead():
		return glanceMaybe // other threads of it go on
	}
	return glanceEmpty
}

// whyDenied says whether a refusal is worth another look. A process in the
// midst of an exec is busy, and does not sleep.
func (g *glancer) whyDenied(pid int) glance {
	if !g.trace {
		if uid, err := ownerOf(pid); err != nil || uid != g.euid {
			return glanceNo
		}
	}
	st, ok := g.stat(pid)
	switch {
	case !ok:
		return glanceNo
	case st.dead() && st.threads > 1:
		return glanceMaybe // its first thread's files are root's by now
	case st.state == 'R' || st.state == 'D':
		return glanceDenied
	}
	return glanceNo
}

// examine opens a process, and hands it over if it is sought.
func (s *scanner) examine(pid int) {
	p, found, err := holdSought(s.filter, pid, describe)
	switch {
	case err == nil:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.visit(p, found)
	case notSought(err):
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.errs = append(s.errs, fmt.Errorf("process %d: %w", pid, err))
	}
}

// exhausted reports whether an error tells of the caller's own lack of means
// rather than of the process.
func exhausted(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// describe is what a scan tells of a process beside its marker.
func describe(p *Process, found *Found) error {
	st, err := p.handle.stat()
	if err != nil {
		return err
	}
	found.PPID, found.PGID, found.Command = st.ppid, st.pgid, st.comm
	if found.UID, err = ownerOf(p.pid); err != nil {
		return ErrGone
	}
	return p.handle.alive()
}
