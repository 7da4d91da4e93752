// Package reclaim takes back, when a host starts, what an earlier host of the
// same installation left behind: it finds every process that may be one of
// ours, proves it, and ends it. What it cannot prove it leaves alone and names.
package reclaim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/plughost/plughost/host/internal/cgroup"
	"github.com/plughost/plughost/host/internal/registry"
	"github.com/plughost/plughost/probes"
	"github.com/plughost/plughost/shared/marker"
)

// maxRounds bounds how often the installation's marker is scanned for: each
// round ends all that it found, so a second one that still finds something
// met a process that was being born.
const maxRounds = 5

// Reclaimer reclaims for one installation.
type Reclaimer struct {
	// Installation is its id.
	Installation string
	Registry     *registry.Registry
	// Grace is what a process of a service gets between SIGTERM and SIGKILL.
	// The service may be one that is no longer configured.
	Grace func(kind marker.Kind, service string) time.Duration
	// Live reports whether an instance is one that this host runs.
	Live func(instance string) bool
	// Groups is where instances get their control groups, or nil where there are
	// none.
	Groups *cgroup.Tree
	// Ended, unless it is nil, is told of each leftover that FreePort ended.
	Ended func(Stopped)
	Log   hclog.Logger
}

// Report says what was found.
type Report struct {
	// Stopped are the instances of which something lived and was ended.
	Stopped []Stopped
	// Foreign are recorded processes whose pid is another process's now.
	Foreign []registry.Record
	// Unknown are recorded processes that could not be identified. They were
	// not touched, and stay recorded.
	Unknown []Unknown
	// Groups are the control groups of instances that were still there when all
	// that could be identified was ended.
	Groups []cgroup.Left
	// Failures say what could not be ended. It stays recorded too.
	Failures []error
}

// Stopped is one instance that was ended.
type Stopped struct {
	Identity marker.Identity
	PID      int // of the plugin's own process; 0 if only others were left
	Result   probes.Result
}

// Unknown is a process that could not be identified.
type Unknown struct {
	Record registry.Record
	Reason string
}

// Run reclaims all that is left of the installation. Unless the report has
// failures, no process that can be proven to be the installation's is alive
// when it returns; a failure does not keep the others from being reclaimed.
// The end of ctx takes the grace from what is still being ended. An error
// means that the registry could not be read, and nothing was done.
func (r *Reclaimer) Run(ctx context.Context) (Report, error) {
	records, err := r.Registry.All()
	if err != nil {
		return Report{}, err
	}
	c := &collector{}
	var wg sync.WaitGroup
	for _, record := range records {
		wg.Go(func() { c.failed(r.reclaimRecord(ctx, c, record)) })
	}
	wg.Wait()
	// What was never recorded, or whose record was lost.
	c.failed(r.reclaimMarked(ctx, c))
	c.failed(r.reclaimGroups(c, records))
	return c.report, nil
}

// RunMarked is Run for a host that runs: it ends the processes that carry the
// installation's marker, or are in a control group of an instance of it, and are
// of no live instance, and leaves the records alone.
func (r *Reclaimer) RunMarked(ctx context.Context) Report {
	c := &collector{}
	c.failed(r.reclaimMarked(ctx, c))
	c.failed(r.reclaimGroups(c, nil))
	return c.report
}

// reclaimRecord ends what is left of a recorded instance.
func (r *Reclaimer) reclaimRecord(ctx context.Context, c *collector, record registry.Record) error {
	id := record.Identity
	if r.Live(id.Instance) {
		return nil // it was adopted
	}
	if id.Installation != r.Installation {
		// A registry that was copied here from elsewhere: nothing to do with us.
		return r.Registry.Remove(id.Instance)
	}
	grace := r.Grace(id.Kind, id.Service)
	var result probes.Result
	var err error
	if record.PID == 0 {
		// The host died between intent and spawn, or just after it.
		result, err = probes.Sweep(ctx, probes.Filter{Instance: id.Instance}, grace)
	} else {
		result, err = probes.Stop(ctx, probes.Record{
			PID:      record.PID,
			Birth:    record.Birth,
			Identity: id,
			Group:    true,
		}, grace)
	}
	if err != nil {
		return fmt.Errorf("cannot reclaim %s %s: %w", id.Kind, id.Service, err)
	}
	switch result.Outcome {
	case probes.OutcomeUnknown:
		c.unknown(Unknown{Record: record, Reason: result.Proof.Reason})
		return nil // the record stays: the next start looks again
	case probes.OutcomeNotOurs:
		c.foreign(record)
	}
	if ended := result.Outcome == probes.OutcomeStopped || len(result.Swept) > 0; ended {
		stopped := Stopped{Identity: id, Result: result}
		if result.Outcome == probes.OutcomeStopped {
			stopped.PID = record.PID
		}
		c.stopped(stopped)
	}
	return r.Registry.Remove(id.Instance)
}

// reclaimMarked ends every process that carries the installation's marker,
// instance by instance, until a scan finds none.
func (r *Reclaimer) reclaimMarked(ctx context.Context, c *collector) error {
	ctxList := context.WithoutCancel(ctx) // a hurry is no reason to look less
	tried := make(map[string]bool)
	for range maxRounds {
		found, err := probes.List(ctxList, probes.Filter{Installation: r.Installation})
		if err != nil {
			return fmt.Errorf("cannot look for processes of the installation: %w", err)
		}
		// An instance is live before its first process is, so one that was
		// found and is not live never will be again. What a round could not
		// end has been told.
		instances := slices.DeleteFunc(byInstance(found), func(id marker.Identity) bool {
			return tried[id.Instance] || r.Live(id.Instance)
		})
		if len(instances) == 0 {
			return nil
		}
		for _, id := range instances {
			tried[id.Instance] = true
		}
		var wg sync.WaitGroup
		for _, id := range instances {
			wg.Go(func() { c.failed(r.reclaimInstance(ctx, c, id)) })
		}
		wg.Wait()
	}
	return errors.New("processes of the installation appear as fast as they are ended: something with its marker keeps starting them")
}

func (r *Reclaimer) reclaimInstance(ctx context.Context, c *collector, id marker.Identity) error {
	result, err := probes.Sweep(ctx, probes.Filter{Instance: id.Instance}, r.Grace(id.Kind, id.Service))
	if err != nil {
		return fmt.Errorf("cannot reclaim %s %s: %w", id.Kind, id.Service, err)
	}
	if len(result.Swept) > 0 {
		c.stopped(Stopped{Identity: id, Result: result})
	}
	return nil
}

func byInstance(found []probes.Found) []marker.Identity {
	var ids []marker.Identity
	seen := make(map[string]bool)
	for _, f := range found {
		if !seen[f.Identity.Instance] {
			seen[f.Identity.Instance] = true
			ids = append(ids, f.Identity)
		}
	}
	return ids
}

// collector gathers what is reclaimed side by side.
type collector struct {
	mu     sync.Mutex
	report Report
}

func (c *collector) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.report.Failures = append(c.report.Failures, err)
	}
}

func (c *collector) stopped(s Stopped) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Stopped = append(c.report.Stopped, s)
}

func (c *collector) foreign(record registry.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Foreign = append(c.report.Foreign, record)
}

func (c *collector) unknown(u Unknown) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Unknown = append(c.report.Unknown, u)
}
