// Package reclaim takes back, when a host starts, what an earlier host of the
// same installation left behind: it finds every process that may be one of
// ours, proves it, and ends it. What it cannot prove it leaves alone and names.
package reclaim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

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

// Run reclaims all that is left of the installation. When it returns nil, no
// process that can be proven to be the installation's is alive. Errors name
// what survived; they do not keep the others from being reclaimed.
func (r *Reclaimer) Run(ctx context.Context) (Report, error) {
	records, err := r.Registry.All()
	if err != nil {
		return Report{}, err
	}
	c := &collector{}
	var wg sync.WaitGroup
	for _, record := range records {
		wg.Go(func() { c.add(r.reclaimRecord(ctx, c, record)) })
	}
	wg.Wait()
	// What was never recorded, or whose record was lost.
	c.add(r.reclaimMarked(ctx, c))
	return c.report, errors.Join(c.errs...)
}

// reclaimRecord ends what is left of a recorded instance.
func (r *Reclaimer) reclaimRecord(ctx context.Context, c *collector, record registry.Record) error {
	id := record.Identity
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
	for range maxRounds {
		found, err := probes.List(ctx, probes.Filter{Installation: r.Installation})
		if err != nil {
			return fmt.Errorf("cannot look for processes of the installation: %w", err)
		}
		instances := byInstance(found)
		if len(instances) == 0 {
			return nil
		}
		var wg sync.WaitGroup
		for _, id := range instances {
			wg.Go(func() { c.add(r.reclaimInstance(ctx, c, id)) })
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
	errs   []error
}

func (c *collector) add(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.errs = append(c.errs, err)
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
