package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/bridge"
	"github.com/plughost/plughost/shared/wire"
)

// tellTimeout is what a remote server has to take a notification.
const tellTimeout = 30 * time.Second

// maxGreetings is how often one of two ways to greet a server is tried again when
// the other one has found it to be there.
const maxGreetings = 3

// remote gives each session one with a server elsewhere, and passes on what
// stands alone to one that knows such requests. Of a session of its own, or by
// asking it what it is, it knows whether that server answers.
type remote struct {
	*endpoint
	log    *log.Logger
	life   context.Context
	cancel context.CancelFunc
	// Of these there is one at the least, once the server was greeted.
	sessions bool         // it has sessions
	alone    *remoteAsker // for what needs none; nil if it does not know that

	checking sync.Mutex // held while the server is greeted or checked, too
	probe    *link      // the session to check the health with, if it has any

	mu    sync.Mutex
	links map[*link]struct{} // the clients' sessions
}

func newRemote(target bridge.Target, logger *log.Logger) *remote {
	r := &remote{endpoint: newEndpoint(target.URL, target.Headers), log: logger, links: make(map[*link]struct{})}
	r.life, r.cancel = context.WithCancel(context.Background())
	return r
}

// Start returns when the server answers. It tries as long as it is let, unless
// the server refuses who asks.
func (r *remote) Start() error {
	for wait := minReconnect / 4; ; wait = min(2*wait, maxReconnect) {
		err := r.greet(r.life)
		var status *statusError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &status) && status.refused():
			return &shared.ExitError{Status: exitConfig, Err: err}
		}
		r.log.Printf("[WARN] trying again: %v", err)
		if err := pause(r.life, wait); err != nil {
			return err
		}
	}
}

// greet finds out what the server can. What fails in passing is tried again: it
// would be done without until the server is greeted anew.
func (r *remote) greet(ctx context.Context) error {
	r.checking.Lock()
	defer r.checking.Unlock()
	alone, discoverErr := r.discover(ctx)
	err := r.initialize(ctx)
	for again := 0; again < maxGreetings && (err == nil) != (discoverErr == nil) && passing(errors.Join(err, discoverErr)); again++ {
		if err := pause(ctx, minReconnect/4<<again); err != nil {
			return err
		}
		if err != nil {
			err = r.initialize(ctx)
		} else {
			alone, discoverErr = r.discover(ctx)
		}
	}
	switch {
	case err != nil && discoverErr != nil:
		return err
	case passing(err):
		r.log.Printf("[WARN] the server is used without sessions: %v", err)
	case passing(discoverErr):
		r.log.Printf("[WARN] the server is used with sessions alone: %v", discoverErr)
	}
	// Where a session has no name the server keeps nothing of it, and cannot ask.
	r.sessions, r.alone = err == nil && (alone == nil || r.probe.named()), alone
	return nil
}

// initialize begins the bridge's own session.
func (r *remote) initialize(ctx context.Context) error {
	params, err := json.Marshal(map[string]any{
		"protocolVersion": revisions[len(revisions)-1],
		"capabilities":    struct{}{},
		"clientInfo":      ownInfo(),
	})
	if err != nil {
		return err
	}
	probe := &link{endpoint: r.endpoint}
	if err := r.ask(ctx, probe, "initialize", params); err != nil {
		return err
	}
	if err := probe.tell(ctx, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err != nil {
		probe.close(context.WithoutCancel(ctx))
		return err
	}
	r.probe = probe
	return nil
}

// ask makes a request of the bridge's own.
func (r *remote) ask(ctx context.Context, l *link, method string, params []byte) error {
	request, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params))
	if err != nil {
		return err
	}
	var refusal error
	err = l.ask(ctx, request, func(m wire.Message) {
		if m.Kind == wire.Response && m.Error.Found() && method == "initialize" {
			refusal = fmt.Errorf("the remote server refuses to be initialized: %s", shown(m.Bytes(m.Error)))
		}
	})
	return errors.Join(err, refusal)
}

// Health asks the server for a sign of life.
func (r *remote) Health(ctx context.Context) error {
	r.checking.Lock()
	defer r.checking.Unlock()
	if !r.sessions {
		_, err := r.discover(ctx)
		return err
	}
	err := r.ask(ctx, r.probe, "ping", []byte("{}"))
	if errors.Is(err, errForgotten) {
		return r.initialize(ctx)
	}
	return err
}

// Stop ends what is under way, and all sessions.
func (r *remote) Stop(ctx context.Context) {
	r.cancel()
	r.checking.Lock()
	defer r.checking.Unlock()
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	var ending sync.WaitGroup
	turns := make(chan struct{}, maxIdle)
	for _, l := range r.openLinks() {
		turns <- struct{}{}
		ending.Go(func() {
			l.close(ctx)
			<-turns
		})
	}
	ending.Wait()
}

// openLinks are all sessions with the server, the bridge's own among them.
func (r *remote) openLinks() []*link {
	r.mu.Lock()
	defer r.mu.Unlock()
	links := slices.Collect(maps.Keys(r.links))
	if r.probe != nil {
		links = append(links, r.probe)
	}
	return links
}

// open implements backend.
func (r *remote) open(c *client) (upstream, error) {
	switch {
	case r.alone == nil:
		return r.away(c), nil
	case !r.sessions:
		return newGuest(r.life, r.alone, c), nil
	default:
		return &either{r.away(c), newGuest(r.life, r.alone, c)}, nil
	}
}

// away is a session with a remote server.
type away struct {
	*link
	remote *remote
	client *client
	life   context.Context
	cancel context.CancelFunc
	calls  inFlight
	ready  sync.Once // the client has said that it is
}

func (r *remote) away(c *client) *away {
	a := &away{link: &link{endpoint: r.endpoint}, remote: r, client: c}
	a.life, a.cancel = context.WithCancel(r.life)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.links[a.link] = struct{}{}
	return a
}

// send implements upstream. A request waits for its answer beside those that
// come after it; all else is passed on in its order.
func (a *away) send(_ context.Context, m wire.Message) error {
	if m.Kind != wire.Request {
		return a.pass(m)
	}
	if string(m.Method) == "server/discover" {
		a.client.refuse(m, wire.CodeMethodNotFound, "this server is served to clients that initialize a session")
		return nil
	}
	ctx, done := a.calls.begin(a.life, m.Bytes(m.ID))
	go func() {
		defer done()
		id := m.Bytes(m.ID)
		err := a.ask(ctx, m, a.client.deliver)
		switch {
		case ctx.Err() != nil: // nobody waits for it
		case errors.Is(err, errForgotten):
			a.client.end(err)
		case err != nil:
			a.client.answer(id, failure(id, codeUnavailable, err.Error()))
		}
	}()
	return nil
}

// pass passes on what wants no answer. That the server does not take it is not
// the end: the next request says why, if it lasts.
func (a *away) pass(m wire.Message) error {
	if string(m.Method) == "notifications/cancelled" {
		if span, err := m.CancelledID(); err == nil {
			a.calls.giveUp(m.Bytes(span))
			a.client.done(m.Bytes(span))
		}
	}
	ctx, cancel := context.WithTimeout(a.life, tellTimeout)
	defer cancel()
	err := a.tell(ctx, m.Raw)
	if errors.Is(err, errForgotten) {
		return err
	}
	if string(m.Method) == "notifications/initialized" {
		a.ready.Do(func() { go a.hear() })
	}
	return nil
}

// hear passes on what the server says by itself.
func (a *away) hear() {
	if err := a.listen(a.life, a.client.deliver); errors.Is(err, errForgotten) {
		a.client.end(err)
	}
}

// close implements upstream.
func (a *away) close() {
	a.cancel()
	go func() {
		a.link.close(context.Background())
		a.remote.mu.Lock()
		defer a.remote.mu.Unlock()
		delete(a.remote.links, a.link)
	}()
}
