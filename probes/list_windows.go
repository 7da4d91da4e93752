package probes

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"
	"unicode/utf16"

	"golang.org/x/sys/windows"

	"github.com/plughost/plughost/shared/marker"
)

// Processes that are just starting are looked at again in rounds, with pauses
// that double: 51 ms together.
const (
	firstRound = 200 * time.Microsecond
	lastRound  = 8
)

// scanner goes over a snapshot. It first looks at the environment as it is in
// memory for what is sought, which is cheap and decides nothing: whatever
// might be sought is held and examined.
type scanner struct {
	filter Filter
	needle []byte // what a sought block contains, in UTF-16
	visit  func(*Process, Found)
	errs   []error
}

func scanProcesses(ctx context.Context, f Filter, visit func(*Process, Found)) error {
	all, err := snapshot()
	if err != nil {
		return err
	}
	sought := f.Instance
	switch {
	case f.everyone:
		sought = marker.Prefix
	case sought == "":
		sought = f.Installation
	}
	s := &scanner{filter: f, needle: encode(sought), visit: visit}
	var pids []int
	for _, e := range all {
		if e.pid != os.Getpid() {
			pids = append(pids, e.pid)
		}
	}
	pause := firstRound
	for round := 0; ; round++ {
		if pids, err = s.pass(ctx, pids); err != nil {
			return err
		}
		if len(pids) == 0 || round == lastRound {
			return errors.Join(s.errs...)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		pause *= 2
	}
}

func encode(text string) []byte {
	var b []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		b = binary.LittleEndian.AppendUint16(b, unit)
	}
	return b
}

// pass looks at each of the processes, and returns those in doubt.
func (s *scanner) pass(ctx context.Context, pids []int) (doubtful []int, err error) {
	for i, pid := range pids {
		if i%64 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		raw, err := glance(pid)
		var again errAgain
		switch {
		case err == nil && bytes.Contains(raw, s.needle):
			s.examine(pid)
		case exhausted(err):
			return nil, fmt.Errorf("process %d: %w", pid, err)
		case errors.As(err, &again):
			doubtful = append(doubtful, pid)
		}
	}
	return doubtful, nil
}

// glance reads an environment, without a hold on the process.
func glance(pid int) ([]byte, error) {
	memory, err := windows.OpenProcess(readRights|windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return nil, err
	}
	defer release(memory)
	if event, err := windows.WaitForSingleObject(memory, 0); err == nil && event == windows.WAIT_OBJECT_0 {
		return nil, ErrGone
	}
	return readEnviron(memory)
}

// exhausted reports whether an error tells of the caller's own lack of means
// rather than of the process.
func exhausted(err error) bool {
	return errors.Is(err, windows.ERROR_NO_SYSTEM_RESOURCES) ||
		errors.Is(err, windows.ERROR_NOT_ENOUGH_MEMORY) ||
		errors.Is(err, windows.ERROR_TOO_MANY_OPEN_FILES)
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

// describe is what a scan tells of a process beside its marker.
func describe(p *Process, found *Found) error {
	info, err := p.Info()
	if err != nil {
		return err
	}
	found.PPID, found.PGID, found.UID, found.Command = info.PPID, info.PGID, info.UID, info.Command
	return nil
}
