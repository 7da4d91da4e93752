package main

import (
	"context"
	"fmt"
	"os"
	"strings"
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

// announce tells people where everything is, once all is ready.
func (h *host) announce(stop context.Context) {
	select {
	case <-h.readiness.ready:
		h.news.ready()
	case <-stop.Done():
		return
	}
	var b strings.Builder
	services := h.current().Services
	fmt.Fprintf(&b, "plughost is ready: %s\n", count(len(services), "service"))
	fmt.Fprintf(&b, "  MCP, all services   %s/mcp\n", h.base)
	for _, service := range services {
		switch service.Kind {
		case config.KindMCP:
			fmt.Fprintf(&b, "  MCP %-15s %s/mcp/%s\n", service.Name, h.base, service.Name)
		case config.KindAgent:
			fmt.Fprintf(&b, "  A2A %-15s %s/a2a/%s\n", service.Name, h.base, service.Name)
		}
	}
	fmt.Fprint(os.Stdout, b.String())
}
