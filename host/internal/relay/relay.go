// Package relay is the front of one MCP service over Streamable HTTP, for every
// revision of the protocol. It reads a message's method and id, and passes the
// message on as it came: parameters and results are neither decoded nor known
// here.
//
// # Sessions
//
// The revisions up to 2025-11-25 have sessions. A session belongs to the caller
// who opened it, ends when it is idle for long, and outlives the plugin: it has
// a link, one stream to one instance of the plugin, and when that is gone it gets
// another one with its next message, or at once if its client listens. What the
// plugin has to know of the session is kept as the client sent it, and said to the new
// instance again: initialize, that the client is initialized, its log level and
// its subscriptions. Then the client is told that the lists have changed. Only
// if the new instance speaks another revision the session ends.
//
// # Calls
//
// A link has a table of the calls in flight. In it they have integers as ids,
// since plugins may not keep others as they are, and the client's own ids come back as the
// client wrote them. The same goes for cancellation, and the other way round for
// what the plugin asks the client: those ids are counted by the session, and
// know the link that they are from, so that no answer reaches another instance. When a link
// ends, the calls that are in its table fail. They are never sent again.
//
// A frame says which call it belongs to (shared/tunnel); what says nothing is put
// where it most likely belongs. Each call has an outbox, which is bounded, and
// so has the stream that a client opens with GET. The goroutine that reads a link puts
// messages there and never waits; the one of the HTTP request writes them. So a
// client that does not read holds up itself alone.
//
// An answer that comes soon, and alone, is plain JSON. At the first message before
// it, or after a while, the response becomes a stream of events. Its first event
// has an id: a client that lost the stream, or was told to come again later, gets what
// was not written yet with a GET.
//
// # Without sessions
//
// From 2026-07-28 on each request stands alone. It has a lane, a link for one
// request at a time, to itself; lanes are used again, by the same caller. What
// still comes for an earlier request is dropped. A client that leaves cancels its
// request, and the lane is given up. A request to listen has a link of its own, and
// outlives the plugin as a session does.
package relay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/plughost/plughost/host/internal/caller"
	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/shared/mcphttp"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

const (
	defaultMaxSessions = 10_000
	defaultIdleTimeout = 30 * time.Minute
	defaultMaxBody     = 4 << 20
	// restoreTimeout bounds the first words with a plugin.
	restoreTimeout = 30 * time.Second
	// answerGrace is how long after a plugin's exit its answers are still
	// read, when a process that it left behind holds the connection open. What
	// the plugin itself sent has arrived by then.
	answerGrace = 250 * time.Millisecond
)

// Plugin is a running instance of the service.
type Plugin interface {
	Conn() *grpc.ClientConn
	// Exited is closed when the plugin's process has ended.
	Exited() <-chan struct{}
}

// Options are what can be set of a relay. Zero means the default.
type Options struct {
	MaxSessions int           // at a time, 10,000
	IdleTimeout time.Duration // after which a session ends, 30 minutes
	MaxBody     int64         // of a request, in bytes, 4 MiB; negative if something else bounds it
	// Quiet is after how long without an answer the response becomes a stream
	// of events, 1 second.
	Quiet time.Duration
	// Called, unless it is nil, is told of each call of a tool that has ended.
	// It does not block. The name of the tool is the client's, and may be made
	// up.
	Called func(tool, outcome string, took time.Duration)
}

// Relay serves one service. Connect and Disconnect tell it of its plugin.
type Relay struct {
	service string
	log     hclog.Logger
	options Options

	life    context.Context // ended by Close
	end     context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	backend  *backend // the instance that can be called, or nil
	why      string   // why there is none
	tools    config.Tools
	headers  map[string][]mcphttp.ParamHeader // by tool
	sessions map[string]*session
	// listeners are those without a session who listen.
	listeners map[*listening]struct{}
	lanes     lanes
}

// New makes a relay for a service that is not started yet.
func New(service string, tools config.Tools, options Options, log hclog.Logger) *Relay {
	if options.MaxSessions == 0 {
		options.MaxSessions = defaultMaxSessions
	}
	if options.IdleTimeout == 0 {
		options.IdleTimeout = defaultIdleTimeout
	}
	if options.MaxBody == 0 {
		options.MaxBody = defaultMaxBody
	}
	if options.Quiet == 0 {
		options.Quiet = time.Second
	}
	r := &Relay{
		service:  service,
		log:      log,
		options:  options,
		why:      "it is not started yet",
		tools:    tools,
		sessions: make(map[string]*session),

		listeners: make(map[*listening]struct{}),
	}
	r.life, r.end = context.WithCancel(context.Background())
	return r
}

// Connect has calls go to a plugin that is ready.
func (r *Relay) Connect(plugin Plugin) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.backend != nil && r.backend.plugin == plugin {
		return
	}
	b := newBackend(r, plugin)
	r.backend, r.why = b, ""
	r.running.Go(b.watch)
	r.running.Go(func() { r.restoreListening(b) })
}

// Disconnect lets no call begin any more. Those in flight go on until the
// plugin ends.
func (r *Relay) Disconnect(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.backend, r.why = nil, why
}

// Offer changes what of the service's tools clients see and can call.
func (r *Relay) Offer(tools config.Tools) {
	r.mu.Lock()
	same := slices.Equal(r.tools.Allow, tools.Allow) && slices.Equal(r.tools.Deny, tools.Deny)
	r.tools = tools
	r.mu.Unlock()
	if same {
		return
	}
	for _, s := range r.all() {
		s.toolsChanged()
	}
	for _, g := range r.listeningNow() {
		g.toolsChanged()
	}
}

// Close ends all sessions, with their calls. Nothing of the relay runs when it
// returns, but requests whose clients do not read.
func (r *Relay) Close() {
	r.mu.Lock()
	r.closed = true
	r.backend, r.why = nil, "the host is shutting down"
	r.mu.Unlock()
	r.end()
	for _, s := range r.all() {
		s.end()
	}
	r.running.Wait()
}

// all returns the sessions that there are.
func (r *Relay) all() []*session {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*session, 0, len(r.sessions))
	for _, s := range r.sessions {
		all = append(all, s)
	}
	return all
}

// current is the instance that can be called, or an error that says why there
// is none.
func (r *Relay) current() (*backend, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.backend == nil {
		return nil, r.unavailable(r.why)
	}
	return r.backend, nil
}

func (r *Relay) unavailable(why string) error {
	return fmt.Errorf("service %s cannot be called: %s", r.service, why)
}

// errLost is of a call whose plugin ended, or its stream.
func (r *Relay) errLost() error {
	return fmt.Errorf("service %s ended during the call, which is not repeated: it may have been carried out", r.service)
}

// visible returns what decides which tools a caller sees, or nil if that is all
// of them.
func (r *Relay) visible(c caller.Caller) func(tool string) bool {
	r.mu.Lock()
	tools := r.tools
	r.mu.Unlock()
	if !c.Restricted() && len(tools.Deny) == 0 && slices.Equal(tools.Allow, []string{"*"}) {
		return nil
	}
	return func(tool string) bool { return tools.Offers(tool) && c.Tool(r.service, tool) }
}

// restoreListening gives those who listen their links, so that they hear of what
// has changed.
func (r *Relay) restoreListening(b *backend) {
	for _, g := range r.listeningNow() {
		_ = g.open(b) // else the instance is gone already
	}
	for _, s := range r.all() {
		if b.ctx.Err() != nil {
			return
		}
		if s.listening() {
			_, _ = s.attached(b.ctx) // else with its next message
		}
	}
}

// backend is one instance of the plugin.
type backend struct {
	relay  *Relay
	plugin Plugin
	client plughostv1.MCPClient
	ctx    context.Context // ended when the instance is gone
	cancel context.CancelFunc
}

func newBackend(r *Relay, plugin Plugin) *backend {
	b := &backend{relay: r, plugin: plugin, client: plughostv1.NewMCPClient(plugin.Conn())}
	b.ctx, b.cancel = context.WithCancel(r.life)
	return b
}

// watch ends all that was opened to the instance when it is gone.
func (b *backend) watch() {
	defer b.cancel()
	select {
	case <-b.plugin.Exited():
	case <-b.relay.life.Done():
		return
	}
	select {
	case <-time.After(answerGrace):
	case <-b.relay.life.Done():
	}
}

// errEnded is of what a session is asked that has ended.
var errEnded = errors.New("the session has ended")

// ServeHTTP serves the endpoint of the service.
func (r *Relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	version := req.Header.Get(headerVersion)
	if version >= firstStateless {
		r.serveStateless(w, req)
		return
	}
	if version != "" && !slices.Contains(revisions[:], version) {
		http.Error(w, fmt.Sprintf("%s %q is not spoken here", headerVersion, version), http.StatusBadRequest)
		return
	}
	switch req.Method {
	case http.MethodPost:
		r.servePost(w, req)
	case http.MethodGet:
		r.serveGet(w, req)
	case http.MethodDelete:
		r.serveDelete(w, req)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	}
}
