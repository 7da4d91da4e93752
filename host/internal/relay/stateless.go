package relay

import (
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
	// maxLanes bounds the lanes to one plugin that wait to be used again.
	maxLanes = 32
	// leaveTimeout bounds what a plugin has to end a request whose client has
	// left, and maxLeaving how many of them. Of more it sees the stream end.
	leaveTimeout = 10 * time.Second
	maxLeaving   = 64
)

// lane is a link for one request at a time.
type lane struct {
	*link
	relay  *Relay
	caller string // whose requests it is for
	older  bool   // the plugin knows only requests with a session

	mu      sync.Mutex
	current *call
}

// lanes are those that have a request, and those that wait to be used again.
type lanes struct {
	mu   sync.Mutex
	busy map[*lane]struct{}
	idle []*lane
}

// use notes that a lane has a request, until done.
func (p *lanes) use(n *lane) (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy[n] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.busy, n)
	}
}

// end ends lanes, with their requests.
func (p *lanes) end(which func(*lane) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := range p.busy {
		if which(n) {
			n.cancel()
		}
	}
	for _, n := range p.idle {
		if which(n) {
			n.cancel()
		}
	}
}

// take returns a living lane of the caller to the instance, or nil.
func (p *lanes) take(b *backend, caller string) *lane {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = slices.DeleteFunc(p.idle, func(n *lane) bool { return !n.alive() })
	for i, n := range slices.Backward(p.idle) {
		if n.backend == b && n.caller == caller {
			p.idle = slices.Delete(p.idle, i, i+1)
			return n
		}
	}
	return nil
}

// put keeps a lane for another request.
func (p *lanes) put(n *lane) {
	p.mu.Lock()
	defer p.mu.Unlock()
	oldest, same := -1, 0
	for i, other := range slices.Backward(p.idle) {
		if other.backend == n.backend {
			oldest, same = i, same+1
		}
	}
	if same >= maxLanes {
		p.idle[oldest].cancel()
		p.idle = slices.Delete(p.idle, oldest, oldest+1)
	}
	p.idle = append(p.idle, n)
}

// serveStateless takes a message of a revision without sessions.
func (r *Relay) serveStateless(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	m, ok := r.readMessage(w, req)
	if !ok {
		return
	}
	if m.Kind == wire.Response {
		writeError(w, http.StatusBadRequest, nil, refusef(wire.CodeInvalidRequest, "nothing was asked: there is no session"))
		return
	}
	who := caller.FromContext(req.Context())
	r.router.know(req.Context(), who, &m)
	if err := r.checkHeaders(who, req.Header, &m); err != nil {
		writeError(w, http.StatusBadRequest, m.Bytes(m.ID), err)
		return
	}
	if m.Kind == wire.Notification { // without a session there is nobody to tell
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if string(m.Method) == methodListen {
		r.serveListening(w, req, &m)
		return
	}
	r.serveAlone(w, req, &m)
}

// serveAlone makes a call that stands alone and answers with what comes of it.
func (r *Relay) serveAlone(w http.ResponseWriter, req *http.Request, m *wire.Message) {
	c := newCall(m)
	who := caller.FromContext(req.Context())
	rt, err := r.router.route(nil, who, m)
	if err != nil {
		writeRefusal(w, c.id, err)
		return
	}
	if rt.to == nil {
		c.answer(rt.result)
		y := reply{w: w, r: req, call: c, quiet: patience, until: r.life}
		y.write()
		return
	}
	n, err := r.lane(req.Context(), who.Name, rt.to)
	if err == nil {
		defer r.lanes.use(n)()
		c.edit, c.token = n.editor(rt), tokenOf(m)
		r.observe(c, rt)
		err = n.begin(c)
	}
	if err != nil {
		writeRefusal(w, c.id, err)
		return
	}
	sent := context.AfterFunc(req.Context(), func() { n.drop(c) }) // a plugin that does not read holds up who sends
	n.sendCall(req.Context(), c, rt.message, passedOn(req.Header))
	sent()
	y := reply{w: w, r: req, call: c, quiet: patience, until: r.life, statuses: true}
	if !y.write() && n.abandon(c) {
		c.end(OutcomeCancelled)
	}
}

// lane returns one to a service that is free.
func (r *Relay) lane(ctx context.Context, caller string, service *Service) (*lane, error) {
	b, err := service.current()
	if err != nil {
		return nil, err
	}
	if n := r.lanes.take(b, caller); n != nil {
		return n, nil
	}
	n := &lane{relay: r, caller: caller}
	return n, n.open(ctx, b)
}

// open opens the lane, with a session if the plugin takes no requests without.
func (n *lane) open(ctx context.Context, b *backend) error {
	alone, err := b.standsAlone(ctx)
	if err != nil {
		return err
	}
	n.older = !alone
	if n.link, err = b.open(ctx, n); err != nil || alone {
		return err
	}
	if _, err := greet(ctx, n.link); err != nil {
		n.cancel()
		return b.service.unavailable(err.Error())
	}
	return nil
}

// editor returns what makes an answer on the lane what the client may see, or nil.
func (n *lane) editor(rt route) func(*wire.Message) *wire.Message {
	if !n.older {
		return rt.edit
	}
	return func(answer *wire.Message) *wire.Message {
		if rt.edit != nil {
			answer = rt.edit(answer)
		}
		return completed(string(rt.message.Method), answer)
	}
}

// begin gives the lane to a call. It is free again with the answer.
func (n *lane) begin(c *call) error {
	c.settle = func(*wire.Message) { n.settled() }
	n.mu.Lock()
	defer n.mu.Unlock()
	n.current = c
	return n.link.begin(c)
}

// drop ends the lane of a call whose client has left, unless the call has an
// answer: another one may have the lane by then.
func (n *lane) drop(c *call) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.current == c {
		c.cancelled.Store(true)
		n.cancel()
	}
}

func (n *lane) settled() {
	n.mu.Lock()
	n.current = nil
	n.mu.Unlock()
	if n.alive() {
		n.relay.lanes.put(n)
	}
}

// abandon cancels a call whose client has left, and gives the link up. It
// reports false if the call was answered before.
func (l *link) abandon(c *call) bool {
	if !l.forget(c) {
		return false
	}
	message := fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":"the client has left","requestId":%d}}`, c.number)
	select {
	case l.backend.leaving <- struct{}{}:
		leave := func() {
			defer func() { <-l.backend.leaving }()
			l.giveUp(message)
		}
		if !l.backend.service.run(leave) {
			l.cancel()
		}
	default:
		l.cancel()
	}
	return true
}

// giveUp sends a last message and lets the plugin end the stream.
func (l *link) giveUp(message []byte) {
	defer l.cancel()
	ctx, cancel := context.WithTimeout(l.ctx, leaveTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, l.cancel)() // a plugin that does not read holds up who sends
	if l.send(ctx, message) != nil || l.closeSend(ctx) != nil {
		return
	}
	<-ctx.Done()
}

// noRequests is what a plugin is told that asks a client without a session.
const noRequests = "this revision has no requests of the server"

// received takes what the plugin sends by itself.
func (n *lane) received(l *link, frame *plughostv1.Frame, m *wire.Message) {
	if m.Kind == wire.Request {
		l.refuse(m, wire.CodeMethodNotFound, noRequests)
		return
	}
	n.mu.Lock()
	c := n.current
	n.mu.Unlock()
	if c != nil && belongs(c, frame, m) && n.relay.router.passes(string(m.Method)) {
		c.out.offer(item{head: m.Raw})
	}
}

func (n *lane) lost(*link) {}

// belongs reports whether a message was sent in the course of a call, and is
// not left from an earlier one.
func belongs(c *call, frame *plughostv1.Frame, m *wire.Message) bool {
	if frame.Request != nil {
		return frame.GetRequest() == c.number
	}
	at, err := m.ProgressToken()
	return err == nil && string(m.Method) == "notifications/progress" && at.Found() && string(m.Bytes(at)) == string(c.token)
}

// statusOf is the HTTP status that an error has where errors have one.
func statusOf(answer *wire.Message) int {
	if !answer.Error.Found() {
		return 0
	}
	at, _ := answer.Find(answer.Error, "code")
	code, err := strconv.Atoi(string(answer.Bytes(at)))
	if err != nil {
		return 0
	}
	return statusFor(code)
}

// statusFor is the HTTP status of an error's code, or 0 if it has none.
func statusFor(code int) int {
	switch code {
	case wire.CodeMethodNotFound:
		return http.StatusNotFound
	case wire.CodeInvalidParams, mcp.CodeUnsupportedProtocolVersion, mcp.CodeMissingRequiredClientCapabilities:
		return http.StatusBadRequest
	default:
		return 0
	}
}
