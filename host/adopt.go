package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/launch"
	"github.com/plughost/plughost/host/internal/registry"
	"github.com/plughost/plughost/probes"
	"github.com/plughost/plughost/shared/marker"
)

// adoptedInstances are those that an earlier host of the installation had left
// running, until their services are started.
type adoptedInstances struct {
	mu sync.Mutex
	by map[config.Ref]*launch.Instance
}

func (a *adoptedInstances) put(ref config.Ref, instance *launch.Instance) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.by == nil {
		a.by = make(map[config.Ref]*launch.Instance)
	}
	a.by[ref] = instance
}

// take returns the instance of a service, once.
func (a *adoptedInstances) take(ref config.Ref) *launch.Instance {
	a.mu.Lock()
	defer a.mu.Unlock()
	instance := a.by[ref]
	delete(a.by, ref)
	return instance
}

// instances are their ids.
func (a *adoptedInstances) instances() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var ids []string
	for _, instance := range a.by {
		ids = append(ids, instance.ID())
	}
	return ids
}

// refs are the services that have such an instance.
func (a *adoptedInstances) refs() []config.Ref {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.by))
}

// stopAdopted ends those whose services were not started.
func (h *host) stopAdopted(ctx context.Context) error {
	var wg sync.WaitGroup
	refs := h.adopted.refs()
	errs := make([]error, len(refs))
	for i, ref := range refs {
		wg.Go(func() {
			if instance := h.adopted.take(ref); instance != nil {
				_, errs[i] = instance.Stop(ctx, h.grace(marker.Kind(ref.Kind), ref.Name))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// adopt takes over what was to outlive its host and can be used as it is. The
// rest is the reclaimer's.
func (h *host) adopt(ctx context.Context) error {
	records, err := h.registry.All()
	if err != nil {
		return err
	}
	kept := make(map[config.Ref][]registry.Record)
	for _, record := range slices.Backward(records) { // the latest first
		ref := serviceOf(record.Identity)
		service, configured := h.conf.Service(ref)
		if configured && service.OnHostExit == config.HostExitKeep && record.Identity.Installation == h.inst.ID {
			kept[ref] = append(kept[ref], record)
		}
	}
	var wg sync.WaitGroup
	for ref, candidates := range kept {
		wg.Go(func() { h.adoptOne(ctx, ref, candidates) })
	}
	wg.Wait()
	return nil
}

// adoptOne takes over the first of a service's instances that can be used.
func (h *host) adoptOne(ctx context.Context, ref config.Ref, candidates []registry.Record) {
	service, _ := h.conf.Service(ref)
	spec, err := h.spec(service)
	if err != nil {
		h.log.Warn("what an earlier host left running cannot be taken over", "service", ref, "reason", err)
		return
	}
	for _, record := range candidates {
		instance, err := h.launcher.Adopt(ctx, record, spec)
		if err == nil {
			h.adopted.put(ref, instance)
			h.news.adopted(ref, instance)
			return
		}
		if !errors.Is(err, probes.ErrGone) {
			h.log.Warn("what an earlier host left running cannot be taken over, and is replaced", "service", ref,
				"instance", record.Identity.Instance, "pid", record.PID, "reason", err)
		}
	}
}
