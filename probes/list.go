package probes

import (
	"context"
	"errors"
	"slices"

	"github.com/plughost/plughost/shared/marker"
)

// Filter selects marked processes. At least one of Installation and Instance
// has to be set.
type Filter struct {
	Installation string
	Instance     string
	// Hosts selects the hosts of the installation instead of its
	// subprocesses. Hosts have no instance.
	Hosts bool

	// everyone selects all marked processes, hosts among them. It cannot be
	// set from outside, so that nothing but a listing ever asks for it.
	everyone bool
}

// errFilter refuses a filter that would select processes of everybody.
var errFilter = errors.New("filter names neither an installation nor an instance")

func (f Filter) check() error {
	if f.everyone {
		return nil
	}
	if f.Installation == "" && f.Instance == "" {
		return errFilter
	}
	if f.Hosts && f.Instance != "" {
		return errors.New("filter asks for the instance of a host")
	}
	return nil
}

// selects reports whether a process with that identity is asked for.
func (f Filter) selects(id marker.Identity) bool {
	if f.everyone {
		return true
	}
	return (id.Kind == marker.KindHost) == f.Hosts &&
		id.Matches(marker.Identity{Installation: f.Installation, Instance: f.Instance})
}

// Found is a live process that carries a marker.
type Found struct {
	PID      int             `json:"pid"`
	PPID     int             `json:"ppid"`
	PGID     int             `json:"pgid"`
	Identity marker.Identity `json:"identity"`
	Birth    Birth           `json:"birth"`
	State    State           `json:"state"`
	UID      int             `json:"uid"`
	Command  string          `json:"command"`
}

// List returns the live processes whose own environment proves that they
// belong to what f asks for, in the order of their pids. The calling process is
// never among them, nor is a zombie, nor one whose environment could not be
// read. If a process that seems to carry the marker could not be examined, for
// lack of file descriptors for instance, the error says so and what was found
// comes with it.
//
// A process that is born during the scan may be missing. On Linux the scan
// reads /proc/PID/environ of every process, 10 us each. On macOS and FreeBSD a
// user other than root finds processes of his own only.
func List(ctx context.Context, f Filter) ([]Found, error) {
	var all []Found
	err := scan(ctx, f, func(p *Process, found Found) {
		all = append(all, found)
		_ = p.Close()
	})
	slices.SortFunc(all, func(a, b Found) int { return a.PID - b.PID })
	return all, err
}

// ListAll returns the live marked processes of all installations, hosts among
// them, under the same conditions as List. It is for looking at.
func ListAll(ctx context.Context) ([]Found, error) {
	return List(ctx, Filter{everyone: true})
}

// scan calls visit for every process that List would return. The callee owns
// the process that is handed over.
func scan(ctx context.Context, f Filter, visit func(*Process, Found)) error {
	if err := f.check(); err != nil {
		return err
	}
	return scanProcesses(ctx, f, visit)
}
