// Package relay is the front of MCP services over Streamable HTTP, for every
// revision of the protocol. It reads a message's method and id, and passes the
// message on as it came: parameters and results are neither decoded nor known
// here.
//
// A Service is what is known of an MCP service and its plugin. A Relay is an
// endpoint with its clients; its router says which service a request is for.
//
// # Sessions
//
// The revisions up to 2025-11-25 have sessions. A session belongs to the caller
// who opened it, ends when it is idle for long, and outlives the plugin: to each
// service that it uses it has a link, one stream to one instance of the plugin, and
// when that is gone it gets another one with its next message, or at once if its
// client listens. What the plugin has to know of the session is kept as the client
// sent it, and said to the new instance again: initialize, that the client is
// initialized, its log level and its subscriptions. At the endpoint of one service
// the client is then told that the lists have changed, and the session ends if the
// new instance speaks another revision.
//
// # Calls
//
// A link has a table of the calls in flight. In it they have integers as ids,
// since plugins may not keep others as they are, and the client's own ids come back as the
// client wrote them. The same goes for cancellation, and the other way round for
// what the plugin asks the client: those ids are counted by the session, and
// know the link that they are from, so that no answer reaches another instance. When a link
// ends, the calls that are in its table fail, and what it asked is withdrawn. Calls
// are never sent again.
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
//
// # Several services
//
// A Join finds the service of a request by the name or URI in it, in a table made
// of what the services list: of raw objects, of which only the name is replaced. The
// table never changes; another one takes its place, and only then those clients are told
// whose lists are different in the two. What is about all services the Join answers
// itself. A session's link to a service is opened when the session first uses it.
package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	defaultMaxSessions = 10_000
	defaultIdleTimeout = 30 * time.Minute
	defaultMaxBody     = 4 << 20
	defaultMaxCalls    = 256
	// maxRestoring bounds the sessions with one plugin that are opened again at a
	// time, since those that listen have lost it.
	maxRestoring = 8
	// restoreTimeout bounds the first words with a plugin.
	restoreTimeout = 30 * time.Second
)

// Options are what can be set of a relay. Zero means the default.
type Options struct {
	MaxSessions int           // at a time, 10,000
	IdleTimeout time.Duration // after which a session ends, 30 minutes
	MaxBody     int64         // of a request, in bytes, 4 MiB; negative if something else bounds it
	// MaxCalls bounds those in flight of a session, 256; it may change. Besides, its
	// client can come back for some whose streams it has lost.
	MaxCalls func() int
	// Quiet is after how long without an answer the response becomes a stream
	// of events, 1 second.
	Quiet time.Duration
	// Called, unless it is nil, is told of each call that has ended of a tool
	// that its service has. It does not block.
	Called func(service, tool, outcome string, took time.Duration)
	// Began and Ended, unless they are nil, are told of each session that begins
	// and that has ended. They do not block.
	Began, Ended func()
}

// Relay is an endpoint, of one service or of several.
type Relay struct {
	router  router
	options Options

	life    context.Context // ended by Close
	end     context.CancelFunc
	running sync.WaitGroup

	parked atomic.Int64 // what waits with parked calls, in bytes

	mu       sync.Mutex
	closed   bool
	sessions map[string]*session
	attached map[*session]struct{} // those of clients with a stream
	// listeners are those without a session who listen.
	listeners map[*listening]struct{}
	lanes     lanes
}

// New makes the endpoint of one service.
func New(service *Service, options Options) *Relay {
	r := newRelay(options)
	r.router = single{service}
	service.watch(r)
	return r
}

func newRelay(options Options) *Relay {
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
		options:   options,
		sessions:  make(map[string]*session),
		attached:  make(map[*session]struct{}),
		listeners: make(map[*listening]struct{}),
		lanes:     lanes{busy: make(map[*lane]struct{})},
	}
	r.life, r.end = context.WithCancel(context.Background())
	return r
}

// maxCalls bounds the calls in flight of a session.
func (r *Relay) maxCalls() int {
	if r.options.MaxCalls == nil {
		return defaultMaxCalls
	}
	return cmp.Or(r.options.MaxCalls(), defaultMaxCalls)
}

// Close ends all sessions, with their calls. Nothing of the relay runs when it
// returns, but requests whose clients do not read.
func (r *Relay) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.end()
	for _, s := range r.all() {
		s.end()
	}
	r.running.Wait()
}

// run runs a job in a goroutine that Close waits for, unless Close was called.
func (r *Relay) run(job func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.running.Go(job)
	}
}

// Grant changes what a caller may reach in the sessions that there are, and ends
// its other calls of what is out of reach.
func (r *Relay) Grant(caller string, g Grants) {
	for _, s := range r.sessionsOf(caller) {
		s.grant(g)
	}
	r.lanes.end(func(n *lane) bool { return n.caller == caller && !r.router.reaches(g, n.backend.service) })
}

// sessionsOf returns a caller's sessions.
func (r *Relay) sessionsOf(caller string) (of []*session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sessions {
		if s.caller == caller {
			of = append(of, s)
		}
	}
	return of
}

// all returns the sessions that there are.
func (r *Relay) all() []*session {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*session, 0, len(r.sessions)+len(r.attached))
	for _, s := range r.sessions {
		all = append(all, s)
	}
	for s := range r.attached {
		all = append(all, s)
	}
	return all
}

// audience is who is told of changed lists.
func (r *Relay) audience() (all []listener) {
	for _, s := range r.all() {
		all = append(all, s)
	}
	for _, g := range r.listeningNow() {
		all = append(all, g)
	}
	return all
}

// listener is who is told of changed lists.
type listener interface {
	granted() Grants
	changed(lists ...string)
}

// listed is told what a service has. Its plugin tells clients itself.
func (r *Relay) listed(*Service, features) {}

// offered tells clients that they see other tools now.
func (r *Relay) offered(*Service, features) {
	for _, s := range r.all() {
		s.changed("tools")
	}
	for _, g := range r.listeningNow() {
		g.changed("tools")
	}
}

// connected gives those who listen their links, so that they hear of what has
// changed.
func (r *Relay) connected(b *backend) {
	for _, g := range r.listeningNow() {
		g.restore(b)
	}
	sessions := make(chan *session)
	var restoring sync.WaitGroup
	for range maxRestoring {
		restoring.Go(func() {
			for s := range sessions {
				if b.ctx.Err() == nil && s.listening() && s.uses(b.service) {
					_, _ = s.attached(b.ctx, b.service) // else with its next message
				}
			}
		})
	}
	for _, s := range r.all() {
		sessions <- s
	}
	close(sessions)
	restoring.Wait()
}

// errEnded is of what a session is asked that has ended.
var errEnded = errors.New("the session has ended")

// ServeHTTP serves the endpoint.
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
