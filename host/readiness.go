package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/supervise"
)

// readiness follows which services are ready.
type readiness struct {
	mu    sync.Mutex
	state map[config.Ref]supervise.State

	once  sync.Once
	ready chan struct{} // closed when all were ready for the first time
}

func newReadiness(services []config.Service) *readiness {
	r := &readiness{state: make(map[config.Ref]supervise.State), ready: make(chan struct{})}
	r.configure(services)
	return r
}

// configure has services be known that are not yet.
func (r *readiness) configure(services []config.Service) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, service := range services {
		if _, known := r.state[service.Ref()]; !known {
			r.state[service.Ref()] = supervise.Stopped
		}
	}
}

func (r *readiness) watch(change supervise.Change) {
	r.mu.Lock()
	if change.State == supervise.Removed {
		delete(r.state, change.Service)
	} else {
		r.state[change.Service] = change.State
	}
	r.mu.Unlock()
	if r.all() {
		r.once.Do(func() { close(r.ready) })
	}
}

// all reports whether every service is ready.
func (r *readiness) all() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, state := range r.state {
		if state != supervise.Ready {
			return false
		}
	}
	return true
}

// announce shows how the start goes on, and tells people where everything is
// once all is ready. loud is called when the start is over.
func (h *host) announce(stop context.Context, loud func()) {
	defer loud()
	h.showServices(stop, settled)
	if h.output.board != nil && stop.Err() == nil && !h.readiness.all() {
		loud()
		fmt.Fprintf(h.output.people, "plughost runs, and goes on with what is not ready yet; %s\n", h.addresses())
	}
	select {
	case <-h.readiness.ready:
		h.news.ready()
	case <-stop.Done():
		return
	}
	fmt.Fprintf(h.output.people, "plughost is ready: %s; %s\n", count(len(h.current().Services), "service"), h.addresses())
}
