package relay

import (
	"context"
	"errors"
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
	// maxLanes bounds the lanes that wait to be used again.
	maxLanes = 32
	// leaveTimeout bounds what a plugin has to end a request whose client has
	// left.
	leaveTimeout = 10 * time.Second
)

// lane is a link for one request at a time.
type lane struct {
	*link
	caller string // whose requests it is for

	mu      sync.Mutex
	current *call
	// listens says that the request is one to listen, so that all that comes
	// is for it.
	listens bool
}

// lanes are those that wait to be used again.
type lanes struct {
	mu   sync.Mutex
	idle []*lane
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
	if len(p.idle) >= maxLanes {
		p.idle[0].cancel()
		p.idle = slices.Delete(p.idle, 0, 1)
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
		writeError(w, http.StatusBadRequest, nil, wire.CodeInvalidRequest, "nothing was asked: there is no session")
		return
	}
	if err := r.checkHeaders(req.Header, &m); err != nil {
		writeError(w, http.StatusBadRequest, m.Bytes(m.ID), codeOf(err), err.Error())
		return
	}
	if m.Kind == wire.Notification { // without a session there is nobody to tell
		w.WriteHeader(http.StatusAccepted)
		return
	}
	r.serveAlone(w, req, &m)
}

func codeOf(err error) int {
	var contradicts *mismatch
	var wrong *wire.Error
	switch {
	case errors.As(err, &contradicts):
		return contradicts.code
	case errors.As(err, &wrong):
		return wrong.Code
	default:
		return wire.CodeInternal
	}
}

// serveAlone makes a call that stands alone and answers with what comes of it.
func (r *Relay) serveAlone(w http.ResponseWriter, req *http.Request, m *wire.Message) {
	c := newCall(m)
	who := caller.FromContext(req.Context())
	tools := r.visible(who)
	if err := allowed(tools, m); err != nil {
		writeError(w, http.StatusBadRequest, c.id, wire.CodeInvalidParams, err.Error())
		return
	}
	n, err := r.lane(who.Name)
	if err == nil {
		c.edit, c.token = editor(tools, m), tokenOf(m)
		r.observe(c, m)
		err = n.begin(c, m)
	}
	if err != nil {
		writeUnavailable(w, c.id, err)
		return
	}
	n.sendCall(req.Context(), c, m, passedOn(req.Header))
	y := reply{w: w, r: req, call: c, quiet: patience, until: r.life, statuses: true}
	if !y.write() {
		n.leave(c)
	}
}

// lane returns one that is free.
func (r *Relay) lane(caller string) (*lane, error) {
	b, err := r.current()
	if err != nil {
		return nil, err
	}
	if n := r.lanes.take(b, caller); n != nil {
		return n, nil
	}
	n := &lane{caller: caller}
	n.link, err = b.open(n)
	return n, err
}

// begin gives the lane to a call. It is free again with the answer.
func (n *lane) begin(c *call, m *wire.Message) error {
	listens := string(m.Method) == "subscriptions/listen"
	c.settle = func(*wire.Message) { n.settled(listens) }
	n.mu.Lock()
	defer n.mu.Unlock()
	n.current, n.listens = c, listens
	return n.link.begin(c)
}

func (n *lane) settled(listens bool) {
	n.mu.Lock()
	n.current = nil
	n.mu.Unlock()
	if listens || !n.alive() {
		n.cancel()
		return
	}
	n.backend.relay.lanes.put(n)
}

// leave cancels a call whose client has left. The lane is not used again.
func (n *lane) leave(c *call) {
	if !n.forget(c) {
		return // it is answered
	}
	c.end(OutcomeCancelled)
	relay := n.backend.relay
	message := []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":"the client has left","requestId":` +
		strconv.FormatInt(c.number, 10) + `}}`)
	if !relay.run(func() { n.giveUp(message) }) {
		n.cancel()
	}
}

// giveUp sends a last message and lets the plugin end the stream.
func (n *lane) giveUp(message []byte) {
	defer n.cancel()
	ctx, cancel := context.WithTimeout(n.ctx, leaveTimeout)
	defer cancel()
	if n.send(ctx, message, nil) != nil || n.stream.CloseSend() != nil {
		return
	}
	<-ctx.Done()
}

// received takes what the plugin sends by itself.
func (n *lane) received(l *link, frame *plughostv1.Frame, m *wire.Message) {
	if m.Kind == wire.Request {
		l.refuse(m, wire.CodeMethodNotFound, "this revision has no requests of the server")
		return
	}
	n.mu.Lock()
	c, listens := n.current, n.listens
	n.mu.Unlock()
	switch {
	case c == nil:
	case listens:
		c.out.offer(forSubscription(c, m))
	case belongs(c, frame, m):
		c.out.offer(item{head: m.Raw})
	}
}

// belongs reports whether a message was sent in the course of a call, and is
// not left from an earlier one.
func belongs(c *call, frame *plughostv1.Frame, m *wire.Message) bool {
	if frame.Request != nil {
		return frame.GetRequest() == c.number
	}
	at, err := m.ProgressToken()
	return err == nil && string(m.Method) == "notifications/progress" && at.Found() && string(m.Bytes(at)) == string(c.token)
}

// forSubscription has a notification name its subscription as the client does:
// by the id of the request.
func forSubscription(c *call, m *wire.Message) item {
	at, err := m.Param("_meta", mcp.MetaKeySubscriptionID)
	if err != nil || string(m.Bytes(at)) != strconv.FormatInt(c.number, 10) {
		return item{head: m.Raw}
	}
	return item{head: m.Raw[:at.Start], id: c.id, tail: m.Raw[at.End:]}
}

// statusOf is the HTTP status that an error has where errors have one.
func statusOf(answer *wire.Message) int {
	if !answer.Error.Found() {
		return 0
	}
	at, _ := answer.Find(answer.Error, "code")
	switch string(answer.Bytes(at)) {
	case strconv.Itoa(wire.CodeMethodNotFound):
		return http.StatusNotFound
	case strconv.Itoa(wire.CodeInvalidParams), strconv.Itoa(mcp.CodeUnsupportedProtocolVersion), strconv.Itoa(mcp.CodeMissingRequiredClientCapabilities):
		return http.StatusBadRequest
	default:
		return 0
	}
}
