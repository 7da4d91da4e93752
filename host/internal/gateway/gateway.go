// Package gateway is the HTTP front of the plugins: one MCP endpoint that joins
// all MCP services, one for each of them, and one A2A endpoint per agent.
//
// Clients speak to the gateway; it speaks to the plugins over the tunnel.
// Lists that clients have seen stay while a plugin restarts, and a call that
// cannot be made fails at once and says why.
package gateway

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/plughost/plughost/host/internal/agents"
	"github.com/plughost/plughost/host/internal/caller"
	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/relay"
	"github.com/plughost/plughost/host/internal/supervise"
	"github.com/plughost/plughost/shared/mcphttp"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
	"github.com/plughost/plughost/shared/release"
)

const (
	// reconnectDelay is between two tries to give an agent that runs its tools.
	reconnectDelay = 5 * time.Second
	// closeTimeout bounds what Close waits for clients that do not take their
	// answers.
	closeTimeout = 5 * time.Second
)

// Plugin is what the gateway needs of a running instance. It is the whole seam
// to the tunnel: a connection on which shared/proto is spoken, and what the
// plugin says of itself.
type Plugin interface {
	Conn() *grpc.ClientConn
	Describe() *plughostv1.DescribeResponse
	// Exited is closed when the plugin's process has ended.
	Exited() <-chan struct{}
	// ExitError says how, once it has: nil for the exit status 0.
	ExitError() error
}

// Gateway joins plugins. Watch tells it of them, Handler serves clients.
type Gateway struct {
	mu       sync.RWMutex // guards the lists; what else changes is inside of each
	services []*upstream  // in the order of the configuration, those that leave last
	agents   []*agent
	starting map[config.Ref]struct{}

	// Metrics, unless it is nil, answers GET /metrics. It is set before Handler
	// is called.
	Metrics http.Handler

	joined *relay.Join
	ready  func() bool
	common common

	listening    context.Context // ended when the host is about to end
	endListening context.CancelFunc
	end          context.CancelFunc // ends common.life
	closeOnce    sync.Once
}

// common is what all services of a gateway share.
type common struct {
	life           context.Context // ended by Close
	sessions       *sync.WaitGroup // what follows the sessions with agents
	calls          CallObserver    // nil for none
	reconnectDelay time.Duration
	relay          relay.Options
	requests       atomic.Int64 // the bound of calls in flight of a session
	address        agents.Address
	log            hclog.Logger
}

// New makes a gateway for the services of a configuration, within limits. ready
// says whether all of them are; version is the host's.
func New(services []config.Service, limits config.GatewayLimits, ready func() bool, version string, log hclog.Logger) (*Gateway, error) {
	g := &Gateway{ready: ready, starting: make(map[config.Ref]struct{})}
	g.listening, g.endListening = context.WithCancel(context.Background())
	g.common = common{sessions: &sync.WaitGroup{}, reconnectDelay: reconnectDelay, log: log}
	g.common.relay = relayOptions(limits)
	g.common.relay.Called = g.common.called
	g.common.requests.Store(int64(limits.Requests))
	g.common.relay.MaxCalls = func() int { return int(g.common.requests.Load()) }
	g.common.life, g.end = context.WithCancel(context.Background())
	g.joined = relay.NewJoin("plughost", version, g.common.relay)
	g.Configure(services)
	return g, nil
}

// relayOptions are the limits of each MCP endpoint. What stands before the gateway
// bounds bodies.
func relayOptions(limits config.GatewayLimits) relay.Options {
	releaser := &release.Releaser{}
	options := relay.Options{MaxSessions: limits.Sessions, IdleTimeout: limits.SessionIdle, Began: releaser.Began, Ended: releaser.Ended}
	if limits.Body > 0 {
		options.MaxBody = -1
	}
	return options
}

// Watch takes the transitions of the services. It returns at once.
func (g *Gateway) Watch(change supervise.Change) {
	defer g.readWhenCalm(change)
	if change.State == supervise.Unhealthy || change.From == supervise.Unhealthy && change.State == supervise.Ready {
		return // it goes on as it is: what it can still answer, it does
	}
	if change.State == supervise.Removed {
		g.removed(change.Service)
		return
	}
	switch change.Service.Kind {
	case config.KindMCP:
		if u := g.service(change.Service.Name); u != nil {
			u.changed(change)
		}
	case config.KindAgent:
		if a := g.agent(change.Service.Name); a != nil {
			a.changed(change)
		}
	}
}

// readWhenCalm has it be read what services have when none is starting any more.
func (g *Gateway) readWhenCalm(change supervise.Change) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if change.State == supervise.Starting {
		g.starting[change.Service] = struct{}{}
		return
	}
	delete(g.starting, change.Service)
	if len(g.starting) > 0 {
		return
	}
	for _, u := range g.services {
		u.service.Read()
	}
}

// LimitRequests bounds what one caller has in hand at once, for the calls in flight of
// its sessions.
func (g *Gateway) LimitRequests(most int) { g.common.requests.Store(int64(most)) }

// SetURL has clients be told the URL, of scheme and host, by which they reach the
// gateway; if it is empty, the one that each of them uses.
func (g *Gateway) SetURL(url string) { g.common.address.Set(url) }

// Introduce tells the gateway of a plugin before its service is said to be
// ready, and returns when a session with it is open: who waits for a service can
// call it then. An error says why the plugin cannot be used; it is to be ended.
func (g *Gateway) Introduce(ctx context.Context, service config.Ref, plugin Plugin) error {
	if service.Kind == config.KindMCP {
		if u := g.service(service.Name); u != nil {
			return u.service.Introduce(ctx, plugin)
		}
	}
	return nil
}

// Handler serves all of the gateway's endpoints, to the caller that the context
// of a request has. It is for whoever guards it to let only those pass that may.
func (g *Gateway) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !g.ready() {
			http.Error(w, "not every service is ready: see plughost status", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	if g.Metrics != nil {
		mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
			if c := caller.FromContext(r.Context()); !c.Metrics() {
				forbid(w, c, "the metrics")
				return
			}
			g.Metrics.ServeHTTP(w, r)
		})
	}
	mux.Handle("/mcp", g.joined)
	mux.HandleFunc("/mcp/{service}", func(w http.ResponseWriter, r *http.Request) {
		name, c := r.PathValue("service"), caller.FromContext(r.Context())
		if !c.Service(name) {
			forbid(w, c, fmt.Sprintf("an MCP service %q", name))
			return
		}
		if u := g.service(name); u != nil {
			u.relay.ServeHTTP(w, r)
			return
		}
		http.Error(w, fmt.Sprintf("there is no MCP service %q", name), http.StatusNotFound)
	})
	toAgent := func(w http.ResponseWriter, r *http.Request) {
		name, c := r.PathValue("agent"), caller.FromContext(r.Context())
		if !c.Agent(name) {
			forbid(w, c, fmt.Sprintf("an agent %q", name))
			return
		}
		if a := g.agent(name); a != nil {
			a.front.ServeHTTP(w, r)
			return
		}
		http.Error(w, fmt.Sprintf("there is no agent %q", name), http.StatusNotFound)
	}
	mux.HandleFunc("GET "+agents.CataloguePath+"{$}", func(w http.ResponseWriter, r *http.Request) {
		agents.ServeCatalogue(w, r, g.fronts(caller.FromContext(r.Context())))
	})
	mux.HandleFunc("/a2a/{agent}", toAgent)
	mux.HandleFunc("/a2a/{agent}/{rest...}", toAgent)
	return g.untilClosing(mux)
}

// untilClosing ends the requests that would last as long as their client
// likes, those that only listen, when the host is about to end.
func (g *Gateway) untilClosing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !mcphttp.OnlyListens(r) {
			next.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(g.listening, cancel)()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// EndListening ends the requests by which clients only listen. Calls go on: it
// is the first step of a shutdown.
func (g *Gateway) EndListening() {
	g.endListening()
}

// Close ends all sessions, those with plugins first, and the calls in flight
// with them. Nothing of the gateway runs when it returns, unless a client does
// not take its answer.
func (g *Gateway) Close() {
	g.EndListening()
	g.closeOnce.Do(func() {
		g.mu.RLock()
		services, agents := g.services, g.agents
		g.mu.RUnlock()
		for _, u := range services {
			u.service.Disconnect("the host is shutting down")
		}
		for _, a := range agents {
			a.disconnect("the host is shutting down")
		}
		g.end()
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			g.joined.Close()
			g.common.sessions.Wait()
			for _, u := range services {
				u.close()
			}
		}()
		select {
		case <-closed:
		case <-time.After(closeTimeout):
		}
	})
}

func (g *Gateway) service(name string) *upstream {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return find(g.services, name)
}

func (g *Gateway) agent(name string) *agent {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return find(g.agents, name)
}

// fronts are those of the agents that a caller may reach.
func (g *Gateway) fronts(c caller.Caller) []*agents.Front {
	g.mu.RLock()
	defer g.mu.RUnlock()
	var fronts []*agents.Front
	for _, a := range g.agents {
		if c.Agent(a.name) {
			fronts = append(fronts, a.front)
		}
	}
	return fronts
}

// unavailable says why a service cannot be called in its present state.
func unavailable(status supervise.Status) string {
	switch status.State {
	case supervise.Backoff:
		return fmt.Sprintf("it failed and is started again at %s", status.NextTry.Format("15:04:05"))
	case supervise.Failed:
		return "it failed: " + status.LastError
	case supervise.Waiting, supervise.Stopping:
		return fmt.Sprintf("it is %s: %s", status.State, status.Cause)
	default:
		return "it is " + string(status.State)
	}
}
