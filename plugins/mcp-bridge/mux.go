package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/marker"
	"github.com/plughost/plughost/shared/wire"
)

// maxOwn is how many messages of the bridge's own may wait for a server that
// does not read. There are few, unless it asks and asks.
const maxOwn = 256

// mux has one server serve all sessions, each of which takes it for its own. The
// server was initialized once, as a client that can all that any client can;
// each session is answered from that. Ids and progress tokens are given anew on
// the way to the server, and are the client's own again on the way back.
type mux struct {
	start launcher
	work  *shared.Work
	log   *log.Logger
	exit  func(*shared.ExitError) // ends the plugin
	own   chan []byte             // what the bridge itself has to say

	mu       sync.Mutex
	server   *process // nil before its start
	stopping bool
	hello    hello
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
	member *member // nil for the bridge's own, and while it waits for its client
	id     []byte  // as the client wrote it
	token  []byte  // its progress token, nil if it has none
	asks   bool    // the server may have to ask the client something for it
	added  []byte  // members that its result gets, nil if none
	done   func(answer wire.Message)

	alone bool          // the request stands alone, as in stateless
	can   capabilities  // what its client can do, if so
	early *wire.Message // the answer that came while it waited for its client
}

func newMux(start launcher, work *shared.Work, logger *log.Logger) *mux {
	return &mux{
		start:   start,
		work:    work,
		log:     logger,
		exit:    exit,
		own:     make(chan []byte, maxOwn),
		members: make(map[*member]struct{}),
		calls:   make(map[uint64]*call),
		asked:   make(map[string]*member),
		tasks:   make(map[string]*member),
		rounds:  make(map[string]*round),
		level:   noLevel,
	}
}

// exit ends the plugin as its server ended.
func exit(err *shared.ExitError) { os.Exit(err.Status) }

// Start starts the server and returns when it is initialized.
func (m *mux) Start() error {
	server, err := m.launch()
	if err != nil {
		return err
	}
	go m.say(server)
	initialized := make(chan error, 1)
	m.mu.Lock()
	m.request("initialize", greeting(), func(answer wire.Message) { initialized <- m.greeted(answer) })
	m.mu.Unlock()
	select {
	case err = <-initialized:
	case <-server.drained:
		err = server.end()
	}
	if err != nil {
		m.stopServer(signalGrace)
		return err
	}
	m.tell([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	go m.watch(server)
	return nil
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
	for member := range m.members {
		member.client.end(err)
	}
	m.mu.Unlock()
	if stopping {
		return
	}
	m.log.Printf("[ERROR] %v", err)
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
		case message := <-m.own:
			if err := server.send(context.Background(), message); err != nil {
				return
			}
		case <-server.exited:
			return
		}
	}
}

// tell has a message of the bridge's own sent to the server.
func (m *mux) tell(message []byte) {
	select {
	case m.own <- message:
	default:
		m.log.Printf("[WARN] the server does not read what it is sent: dropped %s", shown(message))
	}
}

// request has a request of the bridge's own sent to the server. done, if it is
// not nil, is called with the answer, and with the lock held, as it is here.
func (m *mux) request(method string, params any, done func(wire.Message)) {
	encoded, err := json.Marshal(params)
	if err != nil {
		m.log.Printf("[ERROR] cannot ask the server for %s: %v", method, err)
		return
	}
	id := m.add(&call{done: done})
	m.tell(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, encoded))
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
		m.request("ping", struct{}{}, func(wire.Message) {
			m.ping = nil
			close(p.answered)
		})
	}
	return m.ping
}

func (m *mux) busy() bool {
	for _, c := range m.calls {
		if c.member != nil {
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
	id, err := strconv.ParseUint(string(answer.Bytes(answer.ID)), 10, 64)
	c := m.calls[id]
	if err != nil || c == nil {
		// Of a call that was given up, or of none.
		if answer.Error.Found() && !answer.ID.Found() {
			m.log.Printf("[WARN] the server reports an error of no request: %s", shown(answer.Raw))
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

// returned is an answer as the client gets it.
func (c *call) returned(answer wire.Message) []byte {
	edits := []edit{{answer.ID, c.id}}
	if at := answer.Result; len(c.added) > 0 && at.Found() && answer.Raw[at.Start] == '{' {
		edits = append(edits, edit{wire.Span{Start: at.Start, End: at.Start + 1}, c.opening(answer.Bytes(at))})
	}
	return splice(answer.Raw, edits...)
}

// opening is the beginning of an object that gets the call's members.
func (c *call) opening(object []byte) []byte {
	opening := append([]byte("{"), c.added...)
	if len(bytes.TrimSpace(object[1:])) > 1 {
		opening = append(opening, ',')
	}
	return opening
}
