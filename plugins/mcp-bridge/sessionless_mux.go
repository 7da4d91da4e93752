package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/shared/wire"
)

// A server without sessions is served by the mux as well: of the messages on
// standard output it tells which request they belong to.

const (
	// discoverTimeout is what a server has to answer that it may be used without
	// sessions. One that has never heard of it may say nothing.
	discoverTimeout = 10 * time.Second
	// maxFollowed is how many resources a server may be asked to tell of.
	maxFollowed = 1000
)

// sessionless reports whether the server is used without sessions.
func (m *mux) sessionless() bool { return m.hello.revision == stateless }

// discover begins to use the server without sessions.
func (m *mux) discover(server *process) error {
	ctx, cancel := context.WithTimeout(context.Background(), discoverTimeout)
	defer cancel()
	return m.first(ctx, server, methodDiscover, map[string]any{"_meta": ownMeta()}, func(answer wire.Message) (err error) {
		m.hello, err = discovered(answer)
		return err
	})
}

// said implements asker.
func (m *mux) said() hello {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hello
}

// ask implements asker.
func (m *mux) ask(ctx context.Context, request wire.Message, deliver func(wire.Message)) error {
	if string(request.Method) == methodListen {
		return m.listen(ctx, request, deliver)
	}
	token, err := request.ProgressToken()
	if err != nil {
		return err
	}
	answered := make(chan struct{})
	c := &call{id: request.Bytes(request.ID), token: request.Bytes(token), level: levelIn(request), heard: deliver}
	c.done = func(answer wire.Message) {
		c.hear(answer.Replace(nil, answer.ID, c.id))
		close(answered)
	}
	m.mu.Lock()
	number := m.add(c)
	m.mu.Unlock()
	if err := m.server.send(ctx, renumbered(request, token, number)); err != nil {
		m.abandon(number)
		return err
	}
	select {
	case <-answered:
		return nil
	case <-m.server.drained:
		select {
		case <-answered: // it was the last that the server said
			return nil
		default:
			return errServerEnded
		}
	case <-ctx.Done():
		m.abandon(number)
		return context.Cause(ctx)
	}
}

// hear hands over what is said in the course of a call.
func (c *call) hear(raw []byte) {
	if c.heard == nil {
		c.member.client.putFor(c.id, raw)
		return
	}
	if m, err := wire.Scan(raw); err == nil {
		c.heard(m)
	}
}

// abandon gives up a call, unless it was answered meanwhile.
func (m *mux) abandon(number uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, open := m.calls[number]; open {
		delete(m.calls, number)
		m.tell(cancelled(number, "the client does not wait any more"))
	}
}

// levelIn is the level of the log that a request itself wants to hear.
func levelIn(request wire.Message) logLevel {
	at, err := request.Param("_meta", mcp.MetaKeyLogLevel)
	if err != nil {
		return noLevel
	}
	name, _ := wire.Text(request.Bytes(at))
	return logLevel(slices.Index(levelNames, string(name)))
}

var errTooMany = errors.New("the server is asked to tell of too many resources")

// followed is what the server tells of: a resource, or all its lists. It goes on
// when nobody listens, until there are too many: at some servers the end of one
// subscription ends another of the connection to the same resource.
type followed struct {
	number    uint64        // of the request
	listeners int           // who hear of it, or are about to
	begun     chan struct{} // closed when it does, or does not
	err       error         // why it does not; set before begun is closed, or later
}

// follow has the server tell of a resource or, for none, of its lists. The lock
// is held.
func (m *mux) follow(uri string, wants mcp.NotificationSubscriptions) *followed {
	if f := m.followed[uri]; f != nil {
		return f
	}
	f := &followed{begun: make(chan struct{})}
	if len(m.followed) > maxFollowed {
		m.unfollow()
	}
	if len(m.followed) > maxFollowed {
		f.err = errTooMany
		close(f.begun)
		return f
	}
	m.followed[uri] = f
	begun := sync.OnceFunc(func() { close(f.begun) })
	f.number = m.request(methodListen, map[string]any{"notifications": wants, "_meta": ownMeta()}, func(answer wire.Message) {
		delete(m.followed, uri)
		f.err = fmt.Errorf("%w: %s", errRefused, shown(answer.Raw))
		begun()
		for l := range m.audience {
			if l.follows(uri) {
				l.end()
			}
		}
	})
	m.calls[f.number].begun = begun
	return f
}

// unfollow has the server tell no more of resources to which nobody listens.
func (m *mux) unfollow() {
	for uri, f := range m.followed {
		if uri != "" && f.listeners == 0 {
			delete(m.followed, uri)
			delete(m.calls, f.number)
			m.tell(cancelled(f.number, "nobody listens any more"))
		}
	}
}

// acknowledged takes note that the server tells of something from now on.
func (m *mux) acknowledged(message wire.Message) {
	at, err := message.Param("_meta", mcp.MetaKeySubscriptionID)
	if err != nil {
		return
	}
	number, err := strconv.ParseUint(string(message.Bytes(at)), 10, 64)
	if c := m.calls[number]; err == nil && c != nil && c.begun != nil {
		c.begun()
	}
}

// listen is ask for a client that listens: what several want to hear of the
// server tells once.
func (m *mux) listen(ctx context.Context, request wire.Message, deliver func(wire.Message)) error {
	var params struct {
		Notifications mcp.NotificationSubscriptions `json:"notifications"`
	}
	if err := json.Unmarshal(request.Bytes(request.Params), &params); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	l := &listener{id: request.Bytes(request.ID), wants: m.said().tells(params.Notifications), deliver: deliver, end: end}
	all := m.followAll(l.wants)
	defer m.unlisten(l, all)
	if err := m.begin(ctx, l, all); err != nil {
		return err
	}
	select {
	case <-m.server.drained:
		return errServerEnded
	case <-ctx.Done():
		return errors.New("the server does not tell of it any more")
	}
}

// begin returns when a listener hears all that it wants.
func (m *mux) begin(ctx context.Context, l *listener, all []*followed) error {
	for _, f := range all {
		select {
		case <-f.begun:
			if err := m.refusal(f); err != nil {
				return err
			}
		case <-m.server.drained:
			return errServerEnded
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	agreed, err := l.agreed()
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.audience[l] = struct{}{}
	l.deliver(agreed)
	return nil
}

func (m *mux) refusal(f *followed) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return f.err
}

func (m *mux) unlisten(l *listener, all []*followed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.audience, l)
	for _, f := range all {
		f.listeners--
	}
}

func (m *mux) followAll(wants mcp.NotificationSubscriptions) (all []*followed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	add := func(uri string, wants mcp.NotificationSubscriptions) {
		f := m.follow(uri, wants)
		f.listeners++ // at once: what follows may not unfollow it
		all = append(all, f)
	}
	if wantsLists(wants) {
		add("", m.hello.tells(everyList))
	}
	for _, uri := range wants.ResourceSubscriptions {
		add(uri, mcp.NotificationSubscriptions{ResourceSubscriptions: []string{uri}})
	}
	return all
}

// tellAudience tells those who listen of what they want to hear.
func (m *mux) tellAudience(message wire.Message) {
	uri := uriOf(message)
	for l := range m.audience {
		if !l.hears(string(message.Method), uri) {
			continue
		}
		if own, err := wire.Scan(l.addressed(message, uri)); err == nil {
			l.deliver(own)
		}
	}
}
