package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/marker"
	"github.com/plughost/plughost/shared/wire"
)

// Bounds of what of the bridge's own may wait for a server that does not read.
// There is little, unless it asks and asks. A single message may be larger.
const (
	maxOwn      = 1 << 16
	maxOwnBytes = 64 << 20
)

// mux has one server serve all sessions, each of which takes it for its own. The
// server was initialized once, as a client that can all that any client can;
// each session is answered from that. Ids and progress tokens are given anew on
// the way to the server, and are the client's own again on the way back.
type mux struct {
	start launcher
	work  *shared.Work
	log   *log.Logger
	exit  func(*shared.ExitError) // ends the plugin

	mu       sync.Mutex
	own      [][]byte      // what the bridge itself has to say
	ownSize  int           // in bytes
	filled   chan struct{} // holds one if there may be something
	server   *process      // nil before its start
	stopping bool
	hello    hello
	audience map[*listener]struct{} // without sessions: who listens
	followed map[string]*followed   // without sessions: what the server tells of
	members  map[*member]struct{}
	calls    map[uint64]*call   // in flight at the server, by their ids there
	asked    map[string]*member // whom a request of the server went to, by its id
	tasks    map[string]*member // whose a task is
	rounds   map[string]*round  // calls that wait for their clients, by requestState
	last     uint64             // of the ids that were given
	level    logLevel           // what the server was told; noLevel if nothing
	ping     *ping              // the last one, if it was not answered yet
}

// call is a request in flight at the server.
type call struct {
	member *member    // nil for the bridge's own, and while it waits for its client
	id     []byte     // as the client wrote it
	token  []byte     // its progress token, nil if it has none
	asks   bool       // the server may have to ask the client something for it
	added  []addition // members that its result gets if it has them not
	done   func(answer wire.Message)

	// Of a server without sessions:
	heard func(wire.Message) // takes what is said in its course
	level logLevel           // of the log that it wants to hear
	begun func()             // a request to listen was acknowledged

	alone bool          // the request stands alone, as in stateless
	can   capabilities  // what its client can do, if so
	early *wire.Message // the answer that came while it waited for its client
}

func newMux(start launcher, work *shared.Work, logger *log.Logger) *mux {
	return &mux{
		start:    start,
		work:     work,
		log:      logger,
		exit:     exit,
		filled:   make(chan struct{}, 1),
		audience: make(map[*listener]struct{}),
		followed: make(map[string]*followed),
		members:  make(map[*member]struct{}),
		calls:    make(map[uint64]*call),
		asked:    make(map[string]*member),
		tasks:    make(map[string]*member),
		rounds:   make(map[string]*round),
		level:    noLevel,
	}
}

// exit ends the plugin as its server ended.
func exit(err *shared.ExitError) { os.Exit(err.Status) }

// Start starts the server and returns when it has been greeted.
func (m *mux) Start() error {
	server, err := m.launch()
	if err != nil {
		return err
	}
	go m.say(server)
	if err := m.greet(server); err != nil {
		m.stopServer(signalGrace)
		return err
	}
	go m.watch(server)
	return nil
}

// greet begins with the server, in the way that is preferred or else in the
// other one.
func (m *mux) greet(server *process) error {
	ways := []func(*process) error{m.initialize, m.discover}
	if m.start.target.Sessionless {
		slices.Reverse(ways)
	}
	first := ways[0](server)
	switch {
	case errors.Is(first, errServerEnded) && m.start.target.Sessionless:
		return fmt.Errorf(`%w: it may not know %s, which is asked first with sessions = "none"`, first, methodDiscover)
	case first == nil, errors.Is(first, errServerEnded):
		return first
	}
	if second := ways[1](server); second != nil {
		return fmt.Errorf("%w; and %w", first, second)
	}
	how := "without sessions"
	if m.start.target.Sessionless {
		how = "with a session"
	}
	m.log.Printf("[INFO] the server is used %s: %v", how, first)
	return nil
}

// initialize begins a session with the server.
func (m *mux) initialize(server *process) error {
	if err := m.first(context.Background(), server, "initialize", greeting(), m.greeted); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tell([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	return nil
}

// first has the server answer a first request.
func (m *mux) first(ctx context.Context, server *process, method string, params any, take func(wire.Message) error) error {
	taken := make(chan error, 1)
	m.mu.Lock()
	number := m.request(method, params, func(answer wire.Message) { taken <- take(answer) })
	m.mu.Unlock()
	select {
	case err := <-taken:
		return err
	case <-server.drained:
		return server.end()
	case <-ctx.Done():
		m.abandon(number)
		return fmt.Errorf("the server does not answer %s", method)
	}
}

func (m *mux) launch() (*process, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopping {
		return nil, errEnding
	}
	var err error
	m.server, err = m.start.start(m.receive)
	return m.server, err
}

// watch ends the plugin when the server has ended by itself: it keeps nothing
// that a new one could go on with, and restarts are the host's.
func (m *mux) watch(server *process) {
	<-server.drained
	err := server.end()
	m.mu.Lock()
	stopping := m.stopping
	m.stopping = true
	members := slices.Collect(maps.Keys(m.members))
	m.mu.Unlock()
	for _, member := range members {
		member.client.finish(err)
	}
	if stopping {
		return
	}
	m.log.Printf("[ERROR] %v", err)
	for _, member := range members {
		<-member.client.gone // with the server's last words
	}
	m.stopServer(signalGrace)
	m.exit(err)
}

// Stop ends the server with all that it started.
func (m *mux) Stop(ctx context.Context) {
	m.mu.Lock()
	m.stopping = true
	server := m.server
	m.mu.Unlock()
	if server == nil {
		return
	}
	if err := server.stop(ctx, identity()); err != nil {
		m.log.Printf("[ERROR] %v", err)
	}
}

func (m *mux) stopServer(within time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	m.Stop(ctx)
}

// identity is the marker that this process carries, and with it all that it
// starts. Nothing has the zero identity.
func identity() marker.Identity {
	id, err := marker.ParseList(os.Environ())
	if err != nil {
		return marker.Identity{}
	}
	return id
}

// open implements backend.
func (m *mux) open(c *client) (upstream, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopping {
		return nil, errEnding
	}
	if m.sessionless() {
		return newGuest(context.Background(), m, c), nil
	}
	s := &member{
		mux: m, client: c, level: noLevel,
		calls: make(map[string]uint64), subscribed: make(map[string]bool), listeners: make(map[string]*listener),
	}
	m.members[s] = struct{}{}
	return s, nil
}

// say passes on what the bridge itself has to say, so that nobody waits for a
// server that does not read.
func (m *mux) say(server *process) {
	for {
		select {
		case <-m.filled:
		case <-server.exited:
			return
		}
		for _, message := range m.takeOwn() {
			if err := server.send(context.Background(), message); err != nil {
				return
			}
		}
	}
}

func (m *mux) takeOwn() [][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	own := m.own
	m.own, m.ownSize = nil, 0
	return own
}

// tell has a message of the bridge's own sent to the server. None is left out,
// since somebody waits for what comes of it: a server that reads none is ended.
// The lock is held.
func (m *mux) tell(message []byte) {
	if len(m.own) >= maxOwn || len(m.own) > 0 && m.ownSize+len(message) > maxOwnBytes {
		m.log.Print("[ERROR] the server does not read what it is sent, and is ended")
		m.own, m.ownSize = nil, 0
		m.server.kill()
		return
	}
	m.own, m.ownSize = append(m.own, message), m.ownSize+len(message)
	select {
	case m.filled <- struct{}{}:
	default:
	}
}

// request has a request of the bridge's own sent to the server. done, if it is
// not nil, is called with the answer, and with the lock held, as it is here.
func (m *mux) request(method string, params any, done func(wire.Message)) (number uint64) {
	number = m.add(&call{done: done})
	encoded, err := json.Marshal(params)
	if err != nil {
		m.log.Printf("[ERROR] cannot ask the server for %s: %v", method, err)
		return number
	}
	m.tell(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, number, method, encoded))
	return number
}

// add gives a call its id at the server.
func (m *mux) add(c *call) uint64 {
	m.last++
	m.calls[m.last] = c
	return m.last
}

// ping is a question whether the server lives.
type ping struct{ answered chan struct{} }

// Health asks the server for a sign of life. One that has calls in flight may be
// too busy with them to answer.
func (m *mux) Health(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok {
		// There must be time to tell what comes of it.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)*4/5)
		defer cancel()
	}
	select {
	case <-m.pinged().answered:
		return nil
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.busy() {
		return nil
	}
	return errors.New("the server does not answer a ping")
}

// pinged returns the ping that is on its way, or sends one.
func (m *mux) pinged() *ping {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ping == nil {
		p := &ping{make(chan struct{})}
		m.ping = p
		method, params := "ping", map[string]any{}
		if m.sessionless() {
			method, params["_meta"] = methodDiscover, ownMeta()
		}
		m.request(method, params, func(wire.Message) {
			m.ping = nil
			close(p.answered)
		})
	}
	return m.ping
}

func (m *mux) busy() bool {
	for _, c := range m.calls {
		if c.member != nil || c.heard != nil || c.alone {
			return true
		}
	}
	return false
}

// receive takes a message of the server.
func (m *mux) receive(message wire.Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch message.Kind {
	case wire.Response:
		m.answered(message)
	case wire.Request:
		m.question(message)
	case wire.Notification:
		m.notified(message)
	}
}

// answered takes the answer to a call.
func (m *mux) answered(answer wire.Message) {
	id, err := strconv.ParseUint(string(unquoted(answer.Bytes(answer.ID))), 10, 64)
	c := m.calls[id]
	if err != nil || c == nil {
		// Of a call that was given up, or of none.
		if reason := reasonOf(answer); reason != "" {
			m.log.Printf("[WARN] the server reports an error of no request: %s", reason)
		}
		return
	}
	if c.alone && c.member == nil {
		c.early = &answer
		return
	}
	delete(m.calls, id)
	if c.done != nil {
		c.done(answer)
	}
	if c.member != nil {
		delete(c.member.calls, string(c.id))
		c.member.client.answer(c.id, c.returned(answer))
	}
}

// addition is a member that a result gets.
type addition struct{ name, value string }

// returned is an answer as the client gets it.
func (c *call) returned(answer wire.Message) []byte {
	edits := []edit{{answer.ID, c.id}}
	if at := answer.Result; len(c.added) > 0 && at.Found() && answer.Raw[at.Start] == '{' {
		edits = append(edits, edit{wire.Span{Start: at.Start, End: at.Start + 1}, c.opening(answer)})
	}
	return splice(answer.Raw, edits...)
}

// opening is the beginning of a result that gets the call's additions. What the
// server has said itself stays.
func (c *call) opening(answer wire.Message) []byte {
	var members []string
	for _, a := range c.added {
		if said, err := answer.Find(answer.Result, a.name); err == nil && !said.Found() {
			members = append(members, fmt.Sprintf("%q:%s", a.name, a.value))
		}
	}
	opening := "{" + strings.Join(members, ",")
	object := answer.Bytes(answer.Result)
	if len(members) > 0 && len(bytes.TrimSpace(object[1:])) > 1 {
		opening += ","
	}
	return []byte(opening)
}
