package relay

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
	"github.com/plughost/plughost/shared/wire"
)

const (
	methodListen       = "subscriptions/listen"
	methodAcknowledged = "notifications/subscriptions/acknowledged"
	// exitTimeout is how long after its last stream a plugin is expected to end,
	// if that was why the stream ended.
	exitTimeout = 5 * time.Second
)

// listening is a client's request to listen, of a revision without sessions. It
// lasts as long as the client likes, and outlives the plugin: it is made again to
// the next instance, and then the client hears that lists have changed.
type listening struct {
	relay   *Relay
	request *wire.Message
	header  map[string]string
	client  *call // as the client sees it

	mu           sync.Mutex
	link         *link // the latest
	call         *call // the request on it
	acknowledged bool
	changes      []string // the lists of whose changes the client hears
}

// serveListening has a client listen.
func (r *Relay) serveListening(w http.ResponseWriter, req *http.Request, m *wire.Message) {
	g := &listening{relay: r, request: m, header: passedOn(req.Header), client: newCall(m)}
	b, err := r.current()
	if err == nil {
		err = g.open(b)
	}
	if err != nil {
		writeUnavailable(w, g.client.id, err)
		return
	}
	r.register(g, true)
	defer r.register(g, false)
	defer g.leave()
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	defer context.AfterFunc(r.life, cancel)()
	y := reply{w: w, r: req.WithContext(ctx), call: g.client, quiet: patience, until: r.life, statuses: true}
	y.write()
}

// register notes who listens.
func (r *Relay) register(g *listening, listens bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if listens {
		r.listeners[g] = struct{}{}
		return
	}
	delete(r.listeners, g)
}

// listeningNow returns those who listen.
func (r *Relay) listeningNow() []*listening {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*listening, 0, len(r.listeners))
	for g := range r.listeners {
		all = append(all, g)
	}
	return all
}

// open makes the request to an instance, unless it was made already.
func (g *listening) open(b *backend) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.link != nil && g.link.backend == b && g.link.alive() {
		return nil
	}
	l, err := b.open(g)
	if err != nil {
		return err
	}
	c := &call{settle: g.answered}
	c.out.init()
	if err := l.begin(c); err != nil {
		l.cancel()
		return err
	}
	g.link, g.call = l, c
	g.relay.run(func() { l.sendCall(l.ctx, c, g.request, g.header) })
	return nil
}

// answered ends the request with the plugin's answer, if there is one.
func (g *listening) answered(answer *wire.Message) {
	g.mu.Lock()
	number, b := g.call.number, g.link.backend
	g.mu.Unlock()
	if answer == nil {
		g.relay.run(func() { g.lost(b) })
		return
	}
	g.client.finish(g.named(answer, number))
}

// lost ends the request if only the stream was lost. If the plugin is gone, the
// client is to hear of the next one.
func (g *listening) lost(b *backend) {
	select {
	case <-b.ctx.Done():
	case <-time.After(exitTimeout):
		g.client.fail(g.relay.errLost())
	}
}

// named has an answer name the subscription as the client does.
func (g *listening) named(answer *wire.Message, number int64) *wire.Message {
	at, err := answer.Find(answer.Result, "_meta", mcp.MetaKeySubscriptionID)
	if err != nil || string(answer.Bytes(at)) != strconv.FormatInt(number, 10) {
		return answer
	}
	edited, err := wire.Scan(answer.Replace(nil, at, g.client.id))
	if err != nil { // an id is JSON
		return answer
	}
	return &edited
}

// leave tells the plugin that the client has left.
func (g *listening) leave() {
	g.mu.Lock()
	l, c := g.link, g.call
	g.mu.Unlock()
	if !l.abandon(c) {
		l.cancel()
	}
}

// received takes what the plugin sends to who listens.
func (g *listening) received(l *link, _ *plughostv1.Frame, m *wire.Message) {
	if m.Kind == wire.Request {
		l.refuse(m, wire.CodeMethodNotFound, noRequests)
		return
	}
	g.mu.Lock()
	number, current := g.call.number, g.link == l
	again := string(m.Method) == methodAcknowledged && g.acknowledged
	if string(m.Method) == methodAcknowledged {
		g.acknowledged, g.changes = true, agreedChanges(m)
	}
	changes := g.changes
	g.mu.Unlock()
	switch {
	case !current:
	case again:
		g.tell(changes...)
	default:
		g.client.out.offer(g.forClient(m, number))
	}
}

// forClient has a notification name its subscription as the client does: by the
// id of the request.
func (g *listening) forClient(m *wire.Message, number int64) item {
	at, err := m.Param("_meta", mcp.MetaKeySubscriptionID)
	if err != nil || string(m.Bytes(at)) != strconv.FormatInt(number, 10) {
		return item{head: m.Raw}
	}
	return item{head: m.Raw[:at.Start], id: g.client.id, tail: m.Raw[at.End:]}
}

// agreedChanges are the lists of whose changes a plugin has agreed to tell.
func agreedChanges(m *wire.Message) (lists []string) {
	for _, list := range [...]string{"tools", "prompts", "resources"} {
		if at, _ := m.Param("notifications", list+"ListChanged"); string(m.Bytes(at)) == "true" {
			lists = append(lists, list)
		}
	}
	return lists
}

// toolsChanged tells the client that it sees other tools now.
func (g *listening) toolsChanged() {
	g.mu.Lock()
	hears := slices.Contains(g.changes, "tools")
	g.mu.Unlock()
	if hears {
		g.tell("tools")
	}
}

// tell tells the client that lists may have changed.
func (g *listening) tell(lists ...string) {
	for _, list := range lists {
		g.client.out.offerOnce(item{head: fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/%s/list_changed","params":{"_meta":{%q:%s}}}`,
			list, mcp.MetaKeySubscriptionID, bytes.TrimSpace(g.client.id))})
	}
}
