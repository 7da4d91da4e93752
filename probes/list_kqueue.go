//go:build darwin || freebsd

package probes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plughost/plughost/shared/marker"
)

// Processes of which a quick look says nothing certain are looked at again in
// rounds, with pauses that double: 51 ms together.
const (
	firstRound  = 200 * time.Microsecond
	doubtRounds = 8
)

// scanner goes over the processes. It looks at environments by pid, without a
// hold on the process, which is cheap and decides nothing: whatever might be
// sought is opened and examined.
type scanner struct {
	filter Filter
	needle []byte // the id that a sought block contains
	visit  func(*Process, Found)
	errs   []error
}

func scanProcesses(ctx context.Context, f Filter, visit func(*Process, Found)) error {
	s := &scanner{filter: f, needle: []byte(f.Instance), visit: visit}
	if f.Instance == "" {
		s.needle = []byte(f.Installation)
	}
	all, err := readable()
	if err != nil {
		return fmt.Errorf("list processes: %w", typed(err))
	}
	pids := make([]int, 0, len(all))
	self := os.Getpid()
	for _, p := range all {
		if p.pid > 0 && p.pid != self && !p.zombie && !p.kernel {
			pids = append(pids, p.pid)
		}
	}
	pause := firstRound
	for round := 0; ; round++ {
		if pids, err = s.pass(ctx, pids); err != nil {
			return err
		}
		if len(pids) == 0 || round == doubtRounds {
			return errors.Join(s.errs...)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		pause *= 2
	}
}

// readable lists the processes whose environments may be read: all of them to
// root, one's own to others.
func readable() ([]process, error) {
	if os.Geteuid() == 0 {
		return readAll()
	}
	return readUser(os.Geteuid())
}

// pass glances at each of the processes, examines those that may be sought, and
// returns the doubtful ones.
func (s *scanner) pass(ctx context.Context, pids []int) (doubtful []int, err error) {
	for i, pid := range pids {
		if i%64 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		block, err := readEnviron(pid)
		var again errAgain
		switch {
		case err == nil:
			if marker.Scan(block) && bytes.Contains(block, s.needle) {
				s.examine(pid)
			}
		case errors.As(err, &again), errors.Is(err, unix.EBUSY), errors.Is(err, unix.EIO), errors.Is(err, unix.EFAULT):
			doubtful = append(doubtful, pid)
		case exhausted(err):
			return nil, fmt.Errorf("process %d: %w", pid, err)
		}
	}
	return doubtful, nil
}

// examine opens a process, and hands it over if it is sought.
func (s *scanner) examine(pid int) {
	p, found, err := holdSought(s.filter, pid, describe)
	switch {
	case err == nil:
		s.visit(p, found)
	case notSought(err):
	default:
		s.errs = append(s.errs, fmt.Errorf("process %d: %w", pid, err))
	}
}

// exhausted reports whether an error tells of the caller's own lack of means
// rather than of the process. ENOMEM is not among them: it is what sysctl says
// of an answer that grew.
func exhausted(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}

// describe is what a scan tells of a process beside its marker.
func describe(p *Process, found *Found) error {
	facts, err := p.handle.read()
	if err != nil {
		return err
	}
	found.PPID, found.PGID, found.UID, found.Command = facts.ppid, facts.pgid, facts.uid, facts.command
	exited, err := p.handle.exited()
	if err == nil && exited {
		return ErrGone
	}
	return err
}
