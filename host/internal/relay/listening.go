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

	"github.com/plughost/plughost/host/internal/caller"
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
// lasts as long as the client likes, and outlives the plugin.
type listening struct {
	ctx    context.Context // ended when the client leaves
	relay  *Relay
	grants Grants
	header map[string]string
	client *call   // as the client sees it
	parts  []*part // set before anybody else knows of it

	mu           sync.Mutex
	acknowledged bool
	changes      []string // the lists of whose changes the client hears
}

// part is what of a request to listen goes to one service. It is made again to
// the next instance of the plugin.
type part struct {
	*listening
	service *Service
	request *wire.Message
	// whole says that there is no other part: the client gets its answer.
	whole bool

	opening sync.Mutex // held while what follows changes
	left    bool       // the client has
	link    *link      // the latest
	call    *call      // the request on it
}

// serveListening has a client listen.
func (r *Relay) serveListening(w http.ResponseWriter, req *http.Request, m *wire.Message) {
	ctx, cancel := context.WithCancel(req.Context())
	defer context.AfterFunc(r.life, cancel)()
	g := &listening{ctx: ctx, relay: r, grants: caller.FromContext(ctx), header: passedOn(req.Header), client: newCall(m)}
	err := checkSubscriptions(m)
	if err == nil {
		err = r.router.listen(ctx, g, m)
	}
	if err != nil {
		cancel()
		writeRefusal(w, g.client.id, err)
		return
	}
	r.register(g, true)
	defer r.register(g, false)
	defer g.leave()
	defer cancel()
	for _, p := range g.parts {
		if !p.whole { // one that takes its time holds up no other
			p.service.run(func() { _ = p.opened() })
		} else if err := p.opened(); err != nil {
			writeRefusal(w, g.client.id, err)
			return
		}
	}
	y := reply{w: w, r: req.WithContext(ctx), call: g.client, quiet: patience, until: r.life, statuses: true}
	y.write()
}

// checkSubscriptions refuses a request to listen to too much.
func checkSubscriptions(m *wire.Message) error {
	at, err := m.Param("notifications", "resourceSubscriptions")
	if err != nil {
		return err
	}
	n := 0
	for range m.Elements(at) {
		n++
	}
	if n > maxSubscriptions || len(m.Raw) > maxKept {
		return refusef(wire.CodeInvalidParams, "a request to listen has no more than %d resourceSubscriptions, and %d bytes", maxSubscriptions, maxKept)
	}
	return nil
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

// restore makes the request to an instance that can be called now, as far as it
// goes there.
func (g *listening) restore(b *backend) {
	for _, p := range g.parts {
		if p.service == b.service {
			_ = p.openTo(b)
		}
	}
}

// opened makes the request to the instance that can be called now.
func (p *part) opened() error {
	b, err := p.service.current()
	if err != nil {
		return err
	}
	return p.openTo(b)
}

// openTo makes the request to an instance. If that cannot be done, the client does
// not wait for what it is to hear of it.
func (p *part) openTo(b *backend) error {
	before, _ := p.current()
	err := p.open(b)
	if err != nil {
		p.service.run(func() { p.failed(b, before) })
	}
	return err
}

// open makes the request to an instance, unless it was made already.
func (p *part) open(b *backend) error {
	p.opening.Lock()
	defer p.opening.Unlock()
	if p.left || p.link != nil && p.link.backend == b && p.link.alive() {
		return nil
	}
	l, err := b.open(p.ctx, p)
	if err != nil {
		return err
	}
	c := &call{}
	c.settle = func(answer *wire.Message) { p.answered(l, c, answer) }
	c.out.init()
	if err := l.begin(c); err != nil {
		l.cancel()
		return err
	}
	p.link, p.call = l, c
	p.service.run(func() { l.sendCall(l.ctx, c, p.request, p.header) })
	return nil
}

// current is the latest link, and the request on it.
func (p *part) current() (*link, *call) {
	p.opening.Lock()
	defer p.opening.Unlock()
	return p.link, p.call
}

// answered ends the request with the plugin's answer to the call on a link, if
// there is one and it is for the whole of it.
func (p *part) answered(l *link, c *call, answer *wire.Message) {
	switch {
	case answer == nil:
		p.service.run(func() { p.failed(l.backend, l) })
	case p.whole:
		p.client.finish(p.named(answer, c.number))
	}
}

// failed ends the request if only the stream was lost, the last one of which is
// known. If the plugin is gone, the client is to hear of the next one, if it does
// not already.
func (p *part) failed(b *backend, last *link) {
	select {
	case <-b.ctx.Done():
		return
	case <-time.After(exitTimeout):
	}
	if current, _ := p.current(); current == last {
		p.client.fail(p.service.errLost())
	}
}

func (p *part) lost(*link) {}

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

// leave tells a plugin that the client has left.
func (p *part) leave() {
	p.opening.Lock()
	defer p.opening.Unlock()
	p.left = true
	if p.link != nil && !p.link.abandon(p.call) {
		p.link.cancel()
	}
}

// leave tells the plugins that the client has left.
func (g *listening) leave() {
	for _, p := range g.parts {
		p.leave()
	}
}

// received takes what the plugin sends to who listens.
func (p *part) received(l *link, _ *plughostv1.Frame, m *wire.Message) {
	if m.Kind == wire.Request {
		l.refuse(m, wire.CodeMethodNotFound, noRequests)
		return
	}
	current, c := p.current()
	switch {
	case current != l || !p.relay.router.passes(string(m.Method)):
	case string(m.Method) != methodAcknowledged || p.acknowledge(m):
		i := p.forClient(m, c.number)
		i.list = changedList(string(m.Method))
		p.client.out.offer(i)
	case p.whole: // else the router tells of lists
		p.tell(agreedChanges(m)...)
	}
}

// acknowledge notes what the client hears of. It reports false if that is known:
// the request was made again.
func (g *listening) acknowledge(m *wire.Message) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.acknowledged {
		return false
	}
	g.acknowledged, g.changes = true, agreedChanges(m)
	return true
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

func (g *listening) granted() Grants { return g.grants }

// hears reports whether the client wants to hear that a list has changed.
func (g *listening) hears(list string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.changes, list)
}

// changed tells the client that lists have changed, as far as it wants to hear
// of it.
func (g *listening) changed(lists ...string) {
	for _, list := range lists {
		if g.hears(list) {
			g.tell(list)
		}
	}
}

// tell tells the client that lists may have changed.
func (g *listening) tell(lists ...string) {
	for _, list := range lists {
		g.client.out.offer(item{list: list, head: fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/%s/list_changed","params":{"_meta":{%q:%s}}}`,
			list, mcp.MetaKeySubscriptionID, bytes.TrimSpace(g.client.id))})
	}
}
