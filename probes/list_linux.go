package probes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
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

// scanner goes over /proc. It looks at environments by pid, without a hold on
// the process, which is cheap and decides nothing: whatever might be sought is
// opened and examined.
type scanner struct {
	filter Filter
	needle []byte // the id that a sought block contains
	proc   int    // the open directory
	buf    []byte // for environments, used again and again
	path   []byte
	trace  bool // may look into every process
	euid   int
	visit  func(*Process, Found)
	errs   []error
}

func scanProcesses(ctx context.Context, f Filter, visit func(*Process, Found)) error {
	if err := checkProc(); err != nil {
		return err
	}
	proc, err := openat(unix.AT_FDCWD, "/proc", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("open /proc: %w", typed(err))
	}
	defer unix.Close(proc)
	s := &scanner{
		filter: f,
		needle: []byte(f.Instance),
		proc:   proc,
		buf:    make([]byte, 64<<10),
		trace:  canTrace(),
		euid:   os.Geteuid(),
		visit:  visit,
	}
	if f.Instance == "" {
		s.needle = []byte(f.Installation)
	}
	if f.everyone {
		s.needle = []byte(marker.Prefix)
	}
	pids, err := numbersIn(proc, s.buf, nil)
	if err != nil {
		return fmt.Errorf("read /proc: %w", err)
	}
	empty, denied, err := s.pass(ctx, pids)
	if err != nil {
		return err
	}
	pause := firstRound
	for round := 1; round <= emptyRounds && len(empty)+len(denied) > 0; round++ {
		if round > deniedRounds {
			denied = nil
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		pause *= 2
		if empty, denied, err = s.pass(ctx, append(empty, denied...)); err != nil {
			return err
		}
	}
	return errors.Join(s.errs...)
}

// pass glances at each of the processes, examines those that may be sought, and
// returns the doubtful ones.
func (s *scanner) pass(ctx context.Context, pids []int) (empty, denied []int, err error) {
	self := os.Getpid()
	for i, pid := range pids {
		if i%64 == 0 && ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		if pid == self {
			continue
		}
		seen, err := s.glance(pid)
		if err != nil {
			return nil, nil, fmt.Errorf("process %d: %w", pid, err)
		}
		switch seen {
		case glanceMaybe:
			s.examine(pid)
		case glanceEmpty:
			empty = append(empty, pid)
		case glanceDenied:
			denied = append(denied, pid)
		}
	}
	return empty, denied, nil
}

// glance looks at an environment. It fails only if no process could be looked
// at, for lack of descriptors for instance.
func (s *scanner) glance(pid int) (glance, error) {
	s.path = append(strconv.AppendInt(s.path[:0], int64(pid), 10), "/environ"...)
	block, bigger, err := readEnviron(s.proc, string(s.path), s.buf)
	s.buf = bigger
	switch {
	case err == nil && len(block) > 0:
		if marker.Scan(block) && bytes.Contains(block, s.needle) {
			return glanceMaybe, nil
		}
		return glanceNo, nil
	case err == nil, errors.Is(err, unix.ESRCH):
		return s.whyEmpty(pid), nil
	case errors.Is(err, errCut):
		return glanceEmpty, nil
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return s.whyDenied(pid), nil
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM):
		return glanceNo, err
	default:
		return glanceNo, nil
	}
}

// stat reads the state of a process that is not held.
func (s *scanner) stat(pid int) (stat, bool) {
	var buf [2048]byte
	s.path = append(strconv.AppendInt(s.path[:0], int64(pid), 10), "/stat"...)
	line, err := readSome(s.proc, string(s.path), buf[:])
	if err != nil {
		return stat{}, false
	}
	st, err := parseStat(line)
	return st, err == nil
}

// whyEmpty says why an environment was empty.
func (s *scanner) whyEmpty(pid int) glance {
	st, ok := s.stat(pid)
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
func (s *scanner) whyDenied(pid int) glance {
	if !s.trace {
		if uid, err := ownerOf(pid); err != nil || uid != s.euid {
			return glanceNo
		}
	}
	st, ok := s.stat(pid)
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
	p, found, err := s.hold(pid)
	switch {
	case err == nil:
		s.visit(p, found)
	case errors.Is(err, ErrGone),
		errors.Is(err, marker.ErrUnmarked), errors.Is(err, marker.ErrMalformed),
		errors.Is(err, errOther),
		errors.Is(err, ErrUnreadable) && !exhausted(err):
	default:
		s.errs = append(s.errs, fmt.Errorf("process %d: %w", pid, err))
	}
}

// exhausted reports whether an error tells of the caller's own lack of means
// rather than of the process.
func exhausted(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// errOther says that a process is marked, but is not what is looked for.
var errOther = errors.New("not what is looked for")

func (s *scanner) hold(pid int) (_ *Process, _ Found, err error) {
	p, err := hold(pid)
	if err != nil {
		return nil, Found{}, err
	}
	defer func() {
		if err != nil {
			_ = p.Close()
		}
	}()
	found := Found{PID: pid, State: Alive}
	if found.Identity, err = p.Marker(); err != nil {
		return nil, Found{}, err
	}
	if !s.filter.selects(found.Identity) {
		return nil, Found{}, errOther
	}
	if found.Birth, err = p.Birth(); err != nil {
		return nil, Found{}, err
	}
	st, err := p.handle.stat()
	if err != nil {
		return nil, Found{}, err
	}
	found.PPID, found.PGID, found.Command = st.ppid, st.pgid, st.comm
	if found.UID, err = ownerOf(pid); err != nil {
		return nil, Found{}, ErrGone
	}
	if err = p.handle.alive(); err != nil {
		return nil, Found{}, err
	}
	return p, found, nil
}
