package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/marker"
	"github.com/plughost/plughost/shared/wire"
)

// maxIsolated is how many sessions can have a server of their own at once.
const maxIsolated = 64

// isolated gives each session a server of its own, to which all passes as it is.
type isolated struct {
	start launcher
	log   *log.Logger
	exit  func(*shared.ExitError) // ends the plugin

	mu       sync.Mutex
	stopping bool
	servers  map[*alone]struct{} // those that are not known to have ended whole
}

func newIsolated(start launcher, logger *log.Logger) *isolated {
	return &isolated{start: start, log: logger, exit: exit, servers: make(map[*alone]struct{})}
}

// Start has nothing to start: that is done by sessions.
func (i *isolated) Start() error { return nil }

// Health is good as long as sessions can be begun.
func (i *isolated) Health(context.Context) error { return nil }

// Stop ends all servers at once.
func (i *isolated) Stop(ctx context.Context) {
	i.mu.Lock()
	i.stopping = true
	var ending sync.WaitGroup
	for a := range i.servers {
		ending.Go(func() { i.end(ctx, a) })
	}
	i.mu.Unlock()
	ending.Wait()
}

// alone is a server with one session.
type alone struct {
	isolated *isolated
	client   *client
	server   *process
	ending   sync.Mutex // held while it is being ended: it is held by one handle
}

// open implements backend: it starts the session's server.
func (i *isolated) open(c *client) (upstream, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stopping {
		return nil, errEnding
	}
	if len(i.servers) >= maxIsolated {
		return nil, fmt.Errorf("%d sessions have a server of their own, and there can be no more", maxIsolated)
	}
	a := &alone{isolated: i, client: c}
	server, err := i.start.start(c.deliver)
	if err != nil {
		i.log.Printf("[ERROR] %v", err)
		i.exitIfUseless(err)
		return nil, err
	}
	a.server = server
	i.servers[a] = struct{}{}
	go a.watch()
	return a, nil
}

// exitIfUseless ends the plugin with a server that cannot work as it is
// configured: the next session's would not either.
func (i *isolated) exitIfUseless(err error) {
	var exit *shared.ExitError
	if errors.As(err, &exit) && exit.Status == exitConfig {
		go i.exit(exit)
	}
}

// watch ends the session with its server, whose last words the client gets.
func (a *alone) watch() {
	<-a.server.drained
	err := a.server.end()
	a.client.finish(err)
	a.isolated.exitIfUseless(err)
}

// send implements upstream.
func (a *alone) send(ctx context.Context, m wire.Message) error {
	if m.Kind == wire.Notification && string(m.Method) == "notifications/cancelled" {
		if span, err := m.CancelledID(); err == nil {
			a.client.done(m.Bytes(span))
		}
	}
	return a.server.send(ctx, m.Raw)
}

// close implements upstream: the server ends with its session, which need not
// wait for it.
func (a *alone) close() {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), inputGrace+signalGrace+time.Second)
		defer cancel()
		a.isolated.end(ctx, a)
	}()
}

// end ends a server with its group. The marker is that of the others too, so
// what has left the group is ended with the instance.
func (i *isolated) end(ctx context.Context, a *alone) {
	a.ending.Lock()
	defer a.ending.Unlock()
	if !i.has(a) {
		return
	}
	if err := a.server.stop(ctx, marker.Identity{}); err != nil {
		if i.has(a) {
			i.log.Printf("[ERROR] %v", err)
		}
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.servers, a)
	_ = a.server.held.Close()
}

// has reports whether a server is not known to have ended whole.
func (i *isolated) has(a *alone) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	_, has := i.servers[a]
	return has
}
