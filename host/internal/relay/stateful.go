package relay

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/plughost/plughost/host/internal/caller"
	"github.com/plughost/plughost/shared/wire"
)

// patience is how long an answer is waited for whose HTTP headers depend on it.
const patience = 10 * time.Second

// servePost takes a message of a client that has a session, or wants one.
func (r *Relay) servePost(w http.ResponseWriter, req *http.Request) {
	m, ok := r.readMessage(w, req)
	if !ok {
		return
	}
	if req.Header.Get(headerSession) == "" {
		r.serveFirst(w, req, &m)
		return
	}
	s := r.named(w, req)
	if s == nil {
		return
	}
	defer s.leave()
	switch m.Kind {
	case wire.Request:
		s.serveCall(w, req, &m)
	case wire.Notification:
		s.await(req.Context(), s.takeNotification(&m))
		w.WriteHeader(http.StatusAccepted)
	default:
		if q, ok := s.takeQuestion(m.Bytes(m.ID)); ok {
			q.answer(req.Context(), &m)
		}
		w.WriteHeader(http.StatusAccepted)
	}
}

// named returns the session that a request names, which it has entered. If it
// is nil the request was answered.
func (r *Relay) named(w http.ResponseWriter, req *http.Request) *session {
	id := req.Header.Get(headerSession)
	if id == "" {
		http.Error(w, headerSession+" is missing: begin with initialize", http.StatusBadRequest)
		return nil
	}
	who := caller.FromContext(req.Context())
	s := r.session(id, who.Name)
	if s != nil && !s.enter() {
		r.remove(s) // who hears that it has ended finds room for another one
		s = nil
	}
	if s == nil {
		http.Error(w, "there is no such session: begin another one with initialize", http.StatusNotFound)
		return nil
	}
	s.grant(who)
	return s
}

// serveFirst takes a message without a session, which can only begin one.
func (r *Relay) serveFirst(w http.ResponseWriter, req *http.Request, m *wire.Message) {
	id := m.Bytes(m.ID)
	if m.Kind != wire.Request || string(m.Method) != "initialize" {
		if version, _ := m.Param("_meta", metaVersion); version.Found() {
			writeError(w, http.StatusBadRequest, id, mismatchf("%s is missing, for a request that names its revision", headerVersion))
			return
		}
		writeError(w, http.StatusBadRequest, id, refusef(wire.CodeInvalidRequest, "%s is missing: begin with initialize", headerSession))
		return
	}
	who := caller.FromContext(req.Context())
	s := newSession(r, who.Name, who)
	if !r.add(s) {
		s.cancel()
		w.Header().Set("Retry-After", "60")
		http.Error(w, "there are too many sessions", http.StatusTooManyRequests)
		return
	}
	s.enter()
	defer s.leave()
	s.start(w, req, m)
}

// start opens a session. It ends again if the plugin does not want it, or the client
// has left. Headers that go before the answer have its id too: there are no others.
func (s *session) start(w http.ResponseWriter, req *http.Request, m *wire.Message) {
	c := newCall(m)
	err := s.memory.takes(m)
	if err == nil {
		err = s.claim(c)
	}
	if err == nil {
		s.relay.router.know(req.Context(), s.granted(), m)
		err = s.relay.router.open(req.Context(), s, c, m, passedOn(req.Header))
	}
	if err != nil {
		s.end()
		writeError(w, http.StatusOK, c.id, err)
		return
	}
	y := reply{w: w, r: req, call: c, quiet: patience, until: s.ctx, before: func(answered bool) {
		if !answered || s.memory.revision() != "" {
			w.Header().Set(headerSession, s.id)
		}
	}}
	if !y.write() || s.memory.revision() == "" {
		s.end()
	}
}

// serveCall makes a call and answers with what comes of it. It goes on if the
// client leaves, as clients of these revisions expect.
func (s *session) serveCall(w http.ResponseWriter, req *http.Request, m *wire.Message) {
	c := newCall(m)
	c.stream = s.newStream()
	err := s.claim(c)
	if err == nil {
		err = s.make(req.Context(), c, m, passedOn(req.Header))
	}
	switch {
	case errors.Is(err, errEnded):
		http.Error(w, "the session has ended: begin another one with initialize", http.StatusNotFound)
		return
	case errors.Is(err, errTooManyCalls):
		w.Header().Set("Retry-After", "1")
		writeError(w, http.StatusTooManyRequests, m.Bytes(m.ID), err)
		return
	case errors.Is(err, errSameID):
		writeError(w, http.StatusBadRequest, m.Bytes(m.ID), err)
		return
	case err != nil:
		// The status is 200, since clients drop what comes with those of a bad
		// gateway.
		writeError(w, http.StatusOK, m.Bytes(m.ID), err)
		return
	}
	y := reply{w: w, r: req, call: c, quiet: s.relay.options.Quiet, until: s.ctx, session: s}
	if !y.write() && !y.primed {
		s.left(c)
	}
}

// make makes a call, that is claimed, of a client's request. With it the client
// gets what it should have heard.
func (s *session) make(ctx context.Context, c *call, m *wire.Message, header map[string]string) error {
	s.relay.router.know(ctx, s.granted(), m)
	rt, err := s.relay.router.route(s, s.granted(), m)
	if err == nil {
		err = s.memory.takes(m)
	}
	switch {
	case err != nil:
	case rt.to == nil:
		s.answer(ctx, c, m, rt)
	default:
		err = s.forward(ctx, c, m, rt, header)
	}
	if err != nil {
		s.release(c)
	}
	return err
}

// answer answers a call that no service takes.
func (s *session) answer(ctx context.Context, c *call, m *wire.Message, rt route) {
	if rt.every {
		s.await(ctx, s.tellEvery(m))
	}
	s.release(c)
	s.tellWith(c)
	c.answer(rt.result)
}

// forward has a service take a call.
func (s *session) forward(ctx context.Context, c *call, m *wire.Message, rt route, header map[string]string) error {
	l, err := s.attached(ctx, rt.to)
	if err != nil {
		return err
	}
	c.edit, c.token = rt.edit, tokenOf(m)
	s.relay.observe(c, rt)
	if err := s.begin(l, c, rt.message); err != nil {
		return err
	}
	s.tellWith(c)
	l.sendCall(ctx, c, rt.message, header)
	return nil
}

// tellEvery has all services of the session take a request, and those that come
// later. What it returns is closed as each has.
func (s *session) tellEvery(m *wire.Message) (done []<-chan struct{}) {
	if learn := s.memory.learner(nil, m); learn != nil {
		learn(nil)
	}
	for _, l := range s.linked() {
		taken := make(chan struct{})
		asked := l.backend.service.run(func() {
			defer close(taken)
			ctx, cancel := context.WithTimeout(l.ctx, restoreTimeout)
			defer cancel()
			_, _ = l.ask(ctx, m) // one that cannot do it need not
		})
		if asked {
			done = append(done, taken)
		}
	}
	return done
}

// tellWith has a client that does not listen get with a call what it should
// have heard.
func (s *session) tellWith(c *call) {
	if s.listening() {
		return
	}
	c.out.putBack(s.takeAttached(&s.outbox).items)
}

// tokenOf returns the progress token of a request, or nil.
func tokenOf(m *wire.Message) []byte {
	at, err := m.ProgressToken()
	if err != nil {
		return nil
	}
	return m.Bytes(at)
}

// takeNotification passes a notification on, as far as there is somebody to
// pass it to. What it returns is closed as it is sent to each.
func (s *session) takeNotification(m *wire.Message) (sent []<-chan struct{}) {
	message, links := m.Raw, s.linked()
	switch string(m.Method) {
	case "notifications/initialized":
		if len(m.Raw) > maxKept {
			return nil
		}
		s.memory.set(func() { s.memory.initialized = m })
	case "notifications/progress":
		at, err := m.ProgressToken()
		if err != nil || !at.Found() {
			return nil
		}
		links = s.askers(m.Bytes(at))
	case "notifications/cancelled":
		at, err := m.CancelledID()
		if err != nil {
			return nil
		}
		c := s.cancelled(m.Bytes(at))
		if c == nil {
			return nil
		}
		message, links = m.Replace(nil, at, number(c.number)), []*link{c.link}
	}
	for _, l := range links {
		sent = append(sent, l.post(message))
	}
	return sent
}

// await waits until all is done, but not long for what takes its time.
func (s *session) await(ctx context.Context, done []<-chan struct{}) {
	late := time.NewTimer(s.relay.options.Quiet)
	defer late.Stop()
	for _, one := range done {
		select {
		case <-one:
		case <-late.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// answer passes the client's answer on to the instance that asked.
func (q question) answer(ctx context.Context, m *wire.Message) {
	_ = q.link.send(ctx, m.Replace(nil, m.ID, q.id)) // who is gone need not hear of it
}

// serveGet opens the stream on which a client listens, or takes up a lost one.
func (r *Relay) serveGet(w http.ResponseWriter, req *http.Request) {
	if _, events := accepts(req.Header.Values("Accept")); !events {
		http.Error(w, "Accept must have text/event-stream", http.StatusNotAcceptable)
		return
	}
	s := r.named(w, req)
	if s == nil {
		return
	}
	if stream := req.Header.Get(headerLastEvent); stream != "" {
		defer s.leave()
		s.resume(w, req, stream)
		return
	}
	s.leave() // to listen is to be idle
	r.run(func() { s.catchUp() })
	s.listen(w, req)
}

// catchUp gives a session that is listened to links in place of those that it
// has lost.
func (s *session) catchUp() {
	if !s.catching.CompareAndSwap(false, true) {
		return
	}
	defer s.catching.Store(false)
	ctx, cancel := context.WithTimeout(s.ctx, restoreTimeout)
	defer cancel()
	var services sync.WaitGroup
	for _, service := range s.used() {
		services.Go(func() { _, _ = s.attached(ctx, service) }) // else with its next message
	}
	services.Wait()
}

// serveDelete ends a session.
func (r *Relay) serveDelete(w http.ResponseWriter, req *http.Request) {
	s := r.named(w, req)
	if s == nil {
		return
	}
	defer s.leave()
	s.end()
	w.WriteHeader(http.StatusNoContent)
}
