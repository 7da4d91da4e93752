package relay

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
	"github.com/plughost/plughost/shared/wire"
)

const (
	// maxAsked bounds what one plugin can ask a client that does not answer.
	maxAsked = 1000
	// cancelGrace is how long the answer to a call is waited for that its client
	// has cancelled: plugins need not give one.
	cancelGrace = time.Second
	// firstResumable is the first revision whose clients take up a stream again.
	firstResumable = "2025-11-25"
)

// session is a client's, of a revision that has sessions.
type session struct {
	relay  *Relay
	id     string
	caller string          // the name of who opened it, and alone may use it
	ctx    context.Context // ended with the session
	cancel context.CancelFunc
	memory memory

	mu      sync.Mutex
	grants  Grants           // what the caller may reach now
	links   []*attachment    // to the services that it uses
	calls   map[string]*call // in flight, by the client's id as it wrote it
	parked  []*parked        // whose stream was lost, the earliest first
	weight  int              // of what waits with them, in bytes
	streams int64            // counted for their ids
	// writing are the streams on which clients get answers, by their ids.
	writing map[string]*writing

	asked    map[int64]question // the plugins' requests to the client
	askCount int64

	outbox    outbox              // of the stream that the client opens with GET
	listener  *context.CancelFunc // ends that stream; nil if there is none
	catching  atomic.Bool         // links are opened in place of lost ones
	busy      int                 // POST requests in progress
	idleTimer *time.Timer
}

// question is a request of a plugin that the client has to answer.
type question struct {
	link  *link
	id    []byte // as the plugin wrote it
	token []byte // of its progress, if the plugin wants to hear of it
	out   *outbox
}

func newSession(r *Relay, caller string, g Grants) *session {
	s := &session{
		relay:  r,
		id:     rand.Text(),
		caller: caller,
		grants: g,
		calls:  make(map[string]*call),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background()) // Close ends it
	s.outbox.init()
	return s
}

// add makes the session one that clients can name. It reports false if there
// are too many.
func (r *Relay) add(s *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.sessions) >= r.options.MaxSessions {
		return false
	}
	r.sessions[s.id] = s
	if r.options.Began != nil {
		r.options.Began()
	}
	return true
}

// remove has nobody find the session any more.
func (r *Relay) remove(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.attached, s)
	if r.sessions[s.id] == nil {
		return
	}
	delete(r.sessions, s.id)
	if len(r.sessions) == 0 {
		r.sessions = make(map[string]*session) // a map stays as large as it was
	}
	if r.options.Ended != nil {
		r.options.Ended()
	}
}

// session returns the one of an id, if it is the caller's.
func (r *Relay) session(id, caller string) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sessions[id]; s != nil && s.caller == caller {
		return s
	}
	return nil
}

// end ends the session, its calls and its streams.
func (s *session) end() {
	s.relay.remove(s)
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idleTimer != nil {
		s.idleTimer.Stop()
	}
	for _, a := range s.links {
		if a.link != nil {
			a.link.cancel()
		}
	}
	s.abandonParked(func(*call) bool { return true })
}

// enter counts a request of the client, during which the session is not idle.
// It reports false if it has ended.
func (s *session) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.busy++
	if s.idleTimer != nil {
		s.idleTimer.Stop()
	}
	return true
}

func (s *session) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy--; s.busy > 0 || s.ctx.Err() != nil {
		return
	}
	if s.idleTimer == nil {
		s.idleTimer = time.AfterFunc(s.relay.options.IdleTimeout, s.endIdle)
		return
	}
	s.idleTimer.Reset(s.relay.options.IdleTimeout)
}

// endIdle ends the session, unless a request has come meanwhile. None enters
// after that.
func (s *session) endIdle() {
	s.mu.Lock()
	idle := s.busy == 0
	if idle {
		s.cancel()
	}
	s.mu.Unlock()
	if idle {
		s.end()
	}
}

// granted is what the caller may reach now.
func (s *session) granted() Grants {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grants
}

// grant changes what the caller may reach, ends what is of other services, and
// tells the client what is different.
func (s *session) grant(g Grants) {
	s.mu.Lock()
	before := s.grants
	s.grants = g
	s.mu.Unlock()
	if before != g {
		s.detach()
		s.changed(s.relay.router.differing(before, g)...)
	}
}

// errSameID is of a request whose id is another one's that is in flight.
var errSameID = &refusal{code: wire.CodeInvalidRequest, reason: "a request with this id is in flight"}

// errTooManyCalls is of a call in a session that has too many.
var errTooManyCalls = refusef(codeUnavailable, "too many calls of the session are in flight: wait for their answers, or cancel them")

// errCancelled is of a call that the client gave up, and the plugin did not answer.
var errCancelled = refusef(codeUnavailable, "the request was cancelled")

// claim puts a call into the session's table, for its id. It has no link yet.
func (s *session) claim(c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[string(c.id)] != nil {
		return errSameID
	}
	if len(s.calls) >= s.relay.maxCalls()+maxParked { // clients may leave them
		return errTooManyCalls
	}
	s.calls[string(c.id)] = c
	return nil
}

// release takes a call out of the session's table.
func (s *session) release(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetCall(c)
}

// forgetCall takes a call out of the session's table, unless that was done: another
// one may have its id. The lock is held.
func (s *session) forgetCall(c *call) {
	if s.calls[string(c.id)] == c {
		delete(s.calls, string(c.id))
	}
}

// begin puts a call that is claimed, of the client's request m, into the table of
// a link.
func (s *session) begin(l *link, c *call, m *wire.Message) error {
	learn := s.memory.learner(l.backend.service, m)
	c.settle = func(answer *wire.Message) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if learn != nil && answer != nil && answer.Result.Found() && s.keeps(c) {
			learn(answer)
		}
		s.forgetCall(c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c.cancelled.Load():
		return errCancelled
	case s.attachment(l.backend.service) == nil:
		return l.backend.service.errGone()
	}
	return l.begin(c)
}

// cancelled notes that the client does not want the answer to a request any more,
// and ends its call soon. It returns the call if a plugin is to be told.
func (s *session) cancelled(id []byte) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.calls[string(id)]
	if c == nil || c.cancelled.Swap(true) || c.link == nil {
		return nil
	}
	s.abandonParked(func(other *call) bool { return other == c })
	time.AfterFunc(cancelGrace, func() { c.link.fail(c, errCancelled) })
	return c
}

// received takes what a plugin sends by itself.
func (s *session) received(l *link, frame *plughostv1.Frame, m *wire.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.parked) > 0 {
		defer s.weigh()
	}
	if m.Kind == wire.Request {
		s.ask(l, m, s.destination(l, frame, m))
		return
	}
	if !s.hears(l.backend.service, string(m.Method)) {
		return
	}
	out, i := s.destination(l, frame, m), item{head: m.Raw, of: l.backend.service, list: changedList(string(m.Method))}
	switch {
	case string(m.Method) == "notifications/cancelled":
		if i, asked := s.withdraw(l, m); asked && (out == nil || !out.offer(i)) { // its call is over
			s.outbox.offer(i)
		}
	case out == &s.outbox:
		out.offerOnce(i)
	case (out == nil || !out.offer(i)) && i.list != "": // whatever becomes of the call
		s.outbox.offer(i)
	}
}

// hears reports whether the client gets a notification of a service. The lock is
// held.
func (s *session) hears(service *Service, method string) bool {
	if method == "notifications/resources/updated" && !s.grants.Service(service.name) {
		return false
	}
	return s.attachment(service) != nil && s.relay.router.passes(method)
}

// destination is where a message of the plugin goes: to the stream of the call
// in whose course it was sent, or to the one on which the client listens. It is
// nil if the call is over.
func (s *session) destination(l *link, frame *plughostv1.Frame, m *wire.Message) *outbox {
	var c *call
	switch {
	case frame.Request == nil:
		c = l.guess(m)
		if c == nil && string(m.Method) == "notifications/progress" {
			return nil
		}
	case frame.GetRequest() != 0:
		if c = l.call(frame.GetRequest()); c == nil {
			return nil
		}
	}
	if c == nil {
		return &s.outbox
	}
	return &c.out
}

// guess finds the call to which a message most likely belongs that a plugin
// sent without saying so.
func (l *link) guess(m *wire.Message) *call {
	switch string(m.Method) {
	case "notifications/tools/list_changed", "notifications/prompts/list_changed",
		"notifications/resources/list_changed", "notifications/resources/updated":
		return nil
	case "notifications/progress":
		at, err := m.ProgressToken()
		if err != nil || !at.Found() {
			return nil
		}
		token := string(m.Bytes(at))
		return l.find(func(c *call) bool { return string(c.token) == token })
	default:
		return l.find(func(c *call) bool { return c.id != nil })
	}
}

// ask passes a request of the plugin on to the client. The lock is held.
func (s *session) ask(l *link, m *wire.Message, out *outbox) {
	switch {
	case s.attachment(l.backend.service) == nil:
		l.refuse(m, codeUnavailable, "the client may not be asked any more")
		return
	case out == nil:
		l.refuse(m, codeUnavailable, "the request in whose course this was sent is over")
		return
	case l.asked >= maxAsked:
		l.refuse(m, codeUnavailable, "the client has too many requests to answer")
		return
	}
	if s.asked == nil {
		s.asked = make(map[int64]question)
	}
	l.asked++
	s.askCount++
	n := s.askCount
	s.asked[n] = question{link: l, id: bytes.Clone(m.Bytes(m.ID)), token: bytes.Clone(tokenOf(m)), out: out}
	if !out.offer(item{head: m.Raw[:m.ID.Start], id: number(n), tail: m.Raw[m.ID.End:], of: l.backend.service}) {
		s.forgetQuestion(n)
		l.refuse(m, codeUnavailable, "the client does not read")
	}
}

// withdraw makes a plugin's cancellation one that the client understands, if
// the client was asked. The lock is held.
func (s *session) withdraw(l *link, m *wire.Message) (item, bool) {
	at, err := m.CancelledID()
	if err != nil || !at.Found() {
		return item{}, false
	}
	for n, q := range s.asked {
		if q.link == l && string(q.id) == string(m.Bytes(at)) {
			s.forgetQuestion(n)
			return item{head: m.Replace(nil, at, number(n))}, true
		}
	}
	return item{}, false
}

// lost withdraws what was asked on a link that has ended.
func (s *session) lost(l *link) {
	for n, q := range s.takeQuestions(l) {
		withdrawn := item{head: fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":"the service has ended"}}`, n)}
		if !q.out.offer(withdrawn) { // its call is over
			s.outbox.offer(withdrawn)
		}
	}
	if s.listening() && l.backend.current() {
		time.AfterFunc(exitTimeout, func() { s.missing(l.backend) })
	}
}

// missing gives a session that is listened to another link to an instance that has
// ended the last one, unless it has one by now, or that was the instance's end.
func (s *session) missing(b *backend) {
	if s.listening() && b.current() && s.uses(b.service) {
		s.relay.run(func() { _, _ = s.attached(b.ctx, b.service) }) // else with its next message
	}
}

// takeQuestions returns what the client was asked on a link, once.
func (s *session) takeQuestions(l *link) map[int64]question {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := make(map[int64]question)
	for n, q := range s.asked {
		if q.link == l {
			taken[n] = q
			s.forgetQuestion(n)
		}
	}
	return taken
}

// askers are the links on which something was asked that has this progress
// token.
func (s *session) askers(token []byte) (links []*link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.asked {
		if bytes.Equal(q.token, token) && !slices.Contains(links, q.link) {
			links = append(links, q.link)
		}
	}
	return links
}

// takeQuestion returns what the client was asked under an id, once.
func (s *session) takeQuestion(id []byte) (question, bool) {
	n, err := strconv.ParseInt(string(id), 10, 64)
	if err != nil {
		return question{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, ok := s.asked[n]
	if ok {
		s.forgetQuestion(n)
	}
	return q, ok
}

// forgetQuestion takes a question out of the table. The lock is held.
func (s *session) forgetQuestion(n int64) {
	s.asked[n].link.asked--
	delete(s.asked, n)
}

// changed tells the client that lists have changed.
func (s *session) changed(lists ...string) {
	if s.memory.revision() == "" {
		return // it is only beginning, and has seen none
	}
	for _, list := range lists {
		s.outbox.offer(item{head: listChanged(list), list: list})
	}
}

func listChanged(list string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/%s/list_changed"}`, list)
}

// listening reports whether the client has a stream open.
func (s *session) listening() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listener != nil && s.ctx.Err() == nil
}

// listen writes to the client what belongs to no call. A client that listens
// again ends its earlier stream, which it may have lost.
func (s *session) listen(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	s.mu.Lock()
	if s.listener != nil {
		(*s.listener)()
	}
	s.listener = &cancel
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.listener == &cancel {
			s.listener = nil
		}
	}()
	defer hurry(s.ctx, w)()
	e := newEvents(w)
	if e.write(": listening\n\n") != nil {
		return
	}
	e.pump(ctx, &s.outbox, s.takeAttached(&s.outbox))
}
