package main

import (
	"context"

	"github.com/plughost/plughost/host/internal/control"
	"github.com/plughost/plughost/host/internal/usage"
	"github.com/plughost/plughost/probes"
)

// measure says of each service what its instance takes of the machine: what the
// kernel counts for its control group or, where it has none, the sum over its
// processes.
func (h *host) measure(ctx context.Context, services []control.ServiceStatus) {
	var marked map[string][]int // processes by their instance; read when needed
	for i := range services {
		service := &services[i]
		if service.Instance == "" {
			continue
		}
		used, ok := h.measureGroup(service.Instance)
		if !ok {
			if marked == nil {
				marked = h.marked(ctx)
			}
			pids := marked[service.Instance]
			if len(pids) == 0 {
				pids = []int{service.PID} // it gave up its marker
			}
			used = usage.Of(pids)
		}
		service.Usage = &control.Usage{MemoryBytes: used.Memory, CPUSeconds: used.CPU.Seconds(), Processes: used.Processes}
	}
}

// measureGroup measures the control group of an instance, if it has one.
func (h *host) measureGroup(instance string) (used usage.Usage, ok bool) {
	if h.limits.tree == nil {
		return used, false
	}
	cpu, memory, pids, err := h.limits.tree.Usage(instance)
	if err != nil || len(pids) == 0 {
		return used, false
	}
	if memory == 0 { // it is not counted
		memory = usage.Of(pids).Memory
	}
	return usage.Usage{CPU: cpu, Memory: memory, Processes: len(pids)}, true
}

// marked are the processes of the installation, by their instances.
func (h *host) marked(ctx context.Context) map[string][]int {
	pids := make(map[string][]int)
	// What cannot be looked at is not counted.
	found, _ := probes.List(ctx, probes.Filter{Installation: h.inst.ID})
	for _, f := range found {
		pids[f.Identity.Instance] = append(pids[f.Identity.Instance], f.PID)
	}
	return pids
}
