package stdio

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/plughost/plughost/shared/mcphttp"
	"github.com/plughost/plughost/shared/wire"
)

const (
	methodInitialize  = "initialize"
	methodInitialized = "notifications/initialized"
	methodCancelled   = "notifications/cancelled"
	methodProgress    = "notifications/progress"
	methodSetLevel    = "logging/setLevel"
	methodSubscribe   = "resources/subscribe"
	methodUnsubscribe = "resources/unsubscribe"

	headerSession  = "Mcp-Session-Id"
	headerRevision = "Mcp-Protocol-Version"

	// listenDelay is between two tries to listen, and more and more of it, up to
	// maxListenDelay, where a host takes no session.
	listenDelay    = time.Second
	maxListenDelay = 30 * time.Second
	// maxReopened is how often one message may find its session gone.
	maxReopened = 3
	// farewell bounds the end of a session that nobody waits for.
	farewell = 2 * time.Second
	// replayedID is the id of requests that the client does not know of.
	replayedID = `"plughost-again"`
)

// session is that of the client with the endpoint. Of the revisions without
// sessions it is nothing: each request says all of it.
type session struct {
	*Relay
	headers mcphttp.ToolHeaders
	life    context.Context // the Relay's

	opening sync.Mutex // held while one is opened again

	mu         sync.Mutex
	id         string
	revision   string        // that was agreed upon; empty without a session
	hello      *wire.Message // the client's initialize, and what followed it
	ready      *wire.Message
	level      *wire.Message
	subscribed map[string]wire.Message // by the bytes of their URIs
	features   []string                // of the server whose lists change
	asked      map[string]struct{}     // of the client, by the bytes of the ids
	stopListen context.CancelFunc
	listening  sync.WaitGroup
}

func newSession(life context.Context, r *Relay) *session {
	return &session{Relay: r, life: life, subscribed: make(map[string]wire.Message), asked: make(map[string]struct{})}
}

// isStateless reports whether no session was opened.
func (s *session) isStateless() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hello == nil
}

// state is what the requests of a session carry.
func (s *session) state() (id, revision string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id, s.revision
}

// errEnded says that the host was lost during a call.
var errEnded = errors.New("the host ended during the call, which is not repeated: it may have been carried out")

// errNoSession says that the endpoint does not know the session.
var errNoSession = errors.New("the session has ended")

// errOther says that there can be no session like the one before.
var errOther = errors.New("start the client again")

// initialize opens the session that the client asks for.
func (s *session) initialize(ctx context.Context, message wire.Message) {
	answer, id, err := s.open(ctx, message)
	if err != nil {
		if ctx.Err() == nil {
			s.fail(message.Bytes(message.ID), codeUnavailable, err.Error())
		}
		return
	}
	s.mu.Lock()
	s.id, s.hello = id, &message
	s.revision, s.features = agreed(answer)
	s.mu.Unlock()
	s.deliver(answer)
}

// open sends an initialize, and returns its answer and the session's id. What is
// said beside the answer is delivered.
func (s *session) open(ctx context.Context, hello wire.Message) (answer []byte, id string, err error) {
	if err := s.Await(ctx); err != nil {
		return nil, "", err
	}
	response, err := s.post(ctx, hello, "", "")
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	err = receive(response, func(data []byte) {
		if answers(s.heard(data), hello) {
			answer = data
			return
		}
		s.deliver(data)
	})
	if err == nil && answer == nil {
		err = errEnded
	}
	return answer, response.Header.Get(headerSession), err
}

// agreed reads from the answer to an initialize which revision is spoken, and
// which lists of the server's can change.
func agreed(answer []byte) (revision string, features []string) {
	var decoded struct {
		Result struct {
			ProtocolVersion string
			Capabilities    map[string]json.RawMessage
		}
	}
	if json.Unmarshal(answer, &decoded) != nil {
		return "", nil
	}
	for _, name := range []string{"tools", "prompts", "resources"} {
		var capability struct{ ListChanged bool }
		if json.Unmarshal(decoded.Result.Capabilities[name], &capability) == nil && capability.ListChanged {
			features = append(features, name)
		}
	}
	return decoded.Result.ProtocolVersion, features
}

// initialized begins to listen, once the client says that it is ready.
func (s *session) initialized(message wire.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = &message
	s.listen()
}

// remember keeps what a new session has to be told again.
func (s *session) remember(message wire.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	uri, err := message.Param("uri")
	if err != nil {
		return
	}
	switch string(message.Method) {
	case methodSetLevel:
		s.level = &message
	case methodSubscribe:
		s.subscribed[string(message.Bytes(uri))] = message
	case methodUnsubscribe:
		delete(s.subscribed, string(message.Bytes(uri)))
	}
}

// exchange sends a message, and delivers what is answered. A session that is
// gone is opened again, and so is one whose host is; only what nobody can have
// seen is sent once more. waiting is called before that takes long.
func (s *session) exchange(ctx context.Context, message wire.Message, waiting func()) error {
	for reopened := 0; ; {
		id, revision := s.state()
		err := s.once(ctx, message, id, revision, s.deliver)
		var unsent *unsentError
		switch {
		case errors.As(err, &unsent):
			waiting()
			err = s.Await(ctx)
		case errors.Is(err, errNoSession) && reopened < maxReopened:
			reopened++
			waiting()
			err = s.reopen(ctx, id)
		default:
			return err
		}
		if err != nil {
			return err
		}
	}
}

// once sends a message one time. A request is answered when this returns nil.
func (s *session) once(ctx context.Context, message wire.Message, id, revision string, deliver func([]byte)) error {
	response, err := s.post(ctx, message, id, revision)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answered := message.Kind != wire.Request
	err = receive(response, func(data []byte) {
		got := s.heard(data)
		answered = answered || answers(got, message)
		s.headers.Learn(data)
		deliver(data)
	})
	var refused *refusedError
	switch {
	case errors.As(err, &refused):
		return err
	case !answered:
		return errEnded
	default:
		return nil
	}
}

// answers reports whether a message is the response to a request.
func answers(got, request wire.Message) bool {
	return got.Kind == wire.Response && bytes.Equal(got.Bytes(got.ID), request.Bytes(request.ID))
}

// unsentError says that a message did not get to any host.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return "there is no host: " + e.err.Error() }
func (e *unsentError) Unwrap() error { return e.err }

// refusedError is an answer that is no message.
type refusedError struct{ status, text string }

func (e *refusedError) Error() string {
	return fmt.Sprintf("the gateway answers %s: %s", e.status, e.text)
}

// post sends a message. The answer is one that may have messages in it.
func (s *session) post(ctx context.Context, message wire.Message, id, revision string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Endpoint, bytes.NewReader(message.Raw))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	setSession(request, id, revision)
	if id == "" {
		s.headers.Repeat(request.Header, message)
	}
	response, err := s.HTTP.Do(request)
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "dial":
		return nil, &unsentError{op.Err}
	case err != nil:
		return nil, errEnded
	case response.StatusCode == http.StatusNotFound && id != "":
		_ = response.Body.Close()
		return nil, errNoSession
	}
	return response, nil
}

func setSession(request *http.Request, id, revision string) {
	if id != "" {
		request.Header.Set(headerSession, id)
	}
	if revision != "" {
		request.Header.Set(headerRevision, revision)
	}
}

// receive calls deliver with each message of an answer.
func receive(response *http.Response, deliver func([]byte)) error {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	switch {
	case response.StatusCode == http.StatusAccepted || response.StatusCode == http.StatusNoContent:
		return nil
	case kind == "text/event-stream":
		return events(response.Body, deliver)
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	message, err := wire.Scan(text)
	if id := message.Bytes(message.ID); err != nil || response.StatusCode >= 400 && (len(id) == 0 || id[0] == 'n') {
		return &refusedError{response.Status, string(bytes.TrimSpace(text))}
	}
	deliver(text)
	return nil
}

// reopen opens a session in the place of one that is gone, unless that was done.
func (s *session) reopen(ctx context.Context, gone string) error {
	s.opening.Lock()
	defer s.opening.Unlock()
	id, before := s.state()
	if id != gone {
		return nil
	}
	s.withdraw()
	s.mu.Lock()
	hello := *s.hello
	s.mu.Unlock()
	answer, id, err := s.open(ctx, hello)
	if err != nil {
		return err
	}
	revision, features := agreed(answer)
	switch revision {
	case before:
		err = s.retell(ctx, id, revision)
	case "":
		err = fmt.Errorf("the new host refuses the session: %s", answer)
	default:
		err = fmt.Errorf("the new host speaks the revision %q, and the session %q: %w", revision, before, errOther)
	}
	if err != nil {
		s.end(id, revision)
		return err
	}
	s.mu.Lock()
	s.id, s.features = id, features
	if s.ready != nil {
		s.listen()
	}
	s.mu.Unlock()
	for _, feature := range features {
		s.deliver(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/%s/list_changed"}`, feature))
	}
	return nil
}

// retell tells a new session what it has to know.
func (s *session) retell(ctx context.Context, id, revision string) error {
	for _, message := range s.again() {
		if err := s.once(ctx, message, id, revision, func([]byte) {}); err != nil {
			return err
		}
	}
	return nil
}

// again is what a new session has to be told.
func (s *session) again() (messages []wire.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready != nil {
		messages = append(messages, *s.ready)
	}
	if s.level != nil {
		messages = append(messages, renamed(*s.level))
	}
	for _, message := range s.subscribed {
		messages = append(messages, renamed(message))
	}
	return messages
}

// renamed is a request under an id that the client does not use.
func renamed(message wire.Message) wire.Message {
	again, err := wire.Scan(message.Replace(nil, message.ID, []byte(replayedID)))
	if err != nil {
		return message // it was scanned before
	}
	return again
}

// listen has a stream be open for what the server says by itself, in the place
// of any other. The lock is held.
func (s *session) listen() {
	if s.stopListen != nil {
		s.stopListen()
	}
	if s.id == "" {
		return
	}
	ctx, cancel := context.WithCancel(s.life)
	s.stopListen = cancel
	id, revision := s.id, s.revision
	s.listening.Go(func() { s.follow(ctx, id, revision) })
	s.listening.Go(func() { s.keepAlive(ctx, id, revision) })
}

// keepAlive uses the session, so that it does not end for being idle.
func (s *session) keepAlive(ctx context.Context, id, revision string) {
	ping, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":` + replayedID + `,"method":"ping"}`))
	if err != nil {
		return // never
	}
	tick := time.NewTicker(s.alive)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			// If it fails, whoever listens notices.
			_ = s.once(ctx, ping, id, revision, func([]byte) {})
		case <-ctx.Done():
			return
		}
	}
}

// follow listens until the session ends, or there is nothing to listen to.
func (s *session) follow(ctx context.Context, id, revision string) {
	for wait := listenDelay; ; {
		err := s.hear(ctx, id, revision)
		var unsent *unsentError
		switch {
		case ctx.Err() != nil, errors.Is(err, http.ErrNotSupported):
			return
		case errors.As(err, &unsent):
			if s.Await(ctx) != nil {
				return // the client's next call says so
			}
		case errors.Is(err, errNoSession):
			// By the life of all: it ends ctx, and has another listen.
			err := s.reopen(s.life, id)
			if err == nil || s.life.Err() != nil {
				return
			}
			s.Warn("the session could not be opened again: %v", err)
			if errors.Is(err, errOther) {
				return
			}
			pause(ctx, wait)
			wait = min(2*wait, maxListenDelay)
		default:
			pause(ctx, listenDelay)
		}
	}
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// hear delivers what comes on one stream.
func (s *session) hear(ctx context.Context, id, revision string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Endpoint, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "text/event-stream")
	setSession(request, id, revision)
	response, err := s.HTTP.Do(request)
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "dial":
		return &unsentError{op.Err}
	case err != nil:
		return err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusNotFound:
		return errNoSession
	case http.StatusMethodNotAllowed:
		return http.ErrNotSupported
	}
	return receive(response, func(data []byte) {
		s.heard(data)
		s.deliver(data)
	})
}

// close ends the session.
func (s *session) close() {
	s.mu.Lock()
	if s.stopListen != nil {
		s.stopListen()
	}
	id, revision := s.id, s.revision
	s.mu.Unlock()
	s.listening.Wait()
	s.end(id, revision)
}

// end tells the host that a session has ended.
func (s *session) end(id, revision string) {
	if id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.life), farewell)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodDelete, s.Endpoint, nil)
	if err != nil {
		return
	}
	setSession(request, id, revision)
	if response, err := s.HTTP.Do(request); err == nil {
		_ = response.Body.Close()
	}
}
