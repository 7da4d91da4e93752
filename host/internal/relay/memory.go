package relay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/plughost/plughost/shared/wire"
)

const (
	// maxSubscriptions bounds those of a session, and of a request to listen.
	maxSubscriptions = 1000
	// maxKept is how many bytes a message may have that is kept, and all
	// subscriptions of a session.
	maxKept = 256 << 10
)

// memory is what an instance of the plugin has to know of a session: the
// client's own messages.
type memory struct {
	mu            sync.Mutex
	initialize    *wire.Message
	version       string   // what was agreed on
	pinned        bool     // every instance has to speak it
	changes       []string // the lists of which the plugin says that they have changed
	initialized   *wire.Message
	level         *wire.Message
	subscriptions map[string]subscription // by the resource's URI, as it was written
	tasks         tasks
}

// subscription is the client's to a resource.
type subscription struct {
	service *Service
	request *wire.Message
}

// learner returns what is to be done when a request went well, or nil.
func (y *memory) learner(service *Service, m *wire.Message) func(answer *wire.Message) {
	switch string(m.Method) {
	case "initialize":
		return func(answer *wire.Message) { y.started(m, answer) }
	case "logging/setLevel":
		return func(*wire.Message) { y.set(func() { y.level = m }) }
	case "resources/subscribe":
		return func(*wire.Message) { y.subscribed(service, m) }
	case "resources/unsubscribe":
		return func(*wire.Message) { y.set(func() { delete(y.subscriptions, uriOf(m)) }) }
	default:
		return nil
	}
}

func (y *memory) set(change func()) {
	y.mu.Lock()
	defer y.mu.Unlock()
	change()
}

func (y *memory) started(m, answer *wire.Message) {
	version, changes := agreed(answer), changesOf(answer)
	y.set(func() { y.initialize, y.version, y.pinned, y.changes = m, version, true, changes })
}

func (y *memory) subscribed(service *Service, m *wire.Message) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.subscriptions == nil {
		y.subscriptions = make(map[string]subscription)
	}
	y.subscriptions[uriOf(m)] = subscription{service, m}
}

// takes refuses a request that is to be kept, and is too much. Subscriptions that
// are asked for at once may be some more.
func (y *memory) takes(m *wire.Message) error {
	switch method := string(m.Method); {
	case method == "resources/subscribe":
		return y.takesSubscription(m)
	case len(m.Raw) > maxKept && (method == "initialize" || method == "logging/setLevel"):
		return refusef(wire.CodeInvalidParams, "a request %s has no more than %d bytes", method, maxKept)
	}
	return nil
}

func (y *memory) takesSubscription(m *wire.Message) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	count, bytes, uri := 1, len(m.Raw), uriOf(m)
	for other, s := range y.subscriptions {
		if other != uri {
			count, bytes = count+1, bytes+len(s.request.Raw)
		}
	}
	if count > maxSubscriptions || bytes > maxKept {
		return refusef(codeUnavailable, "a session has no more than %d subscriptions, with %d bytes: unsubscribe from some first", maxSubscriptions, maxKept)
	}
	return nil
}

// forget forgets the tasks of services of which nothing may be reached any more,
// and the subscriptions to what is of those whose resources may not.
func (y *memory) forget(unreached, closed func(*Service) bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.tasks.forget(unreached)
	maps.DeleteFunc(y.subscriptions, func(_ string, s subscription) bool { return unreached(s.service) || closed(s.service) })
}

// subscribedAt returns the service at which the client has subscribed to a
// resource, or nil.
func (y *memory) subscribedAt(m *wire.Message) *Service {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.subscriptions[uriOf(m)].service
}

// begun reports whether a service can be told what the session begins with.
func (y *memory) begun() bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.initialize != nil
}

func (y *memory) revision() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.version
}

// agreed is the revision that an answer to initialize names.
func agreed(answer *wire.Message) string {
	at, _ := answer.Find(answer.Result, "protocolVersion")
	version, _ := wire.Text(answer.Bytes(at))
	return string(version)
}

// changesOf returns the lists of which a plugin can say that they have changed.
func changesOf(answer *wire.Message) (changes []string) {
	for _, list := range [...]string{"tools", "prompts", "resources"} {
		if at, _ := answer.Find(answer.Result, "capabilities", list, "listChanged"); string(answer.Bytes(at)) == "true" {
			changes = append(changes, list)
		}
	}
	return changes
}

func uriOf(m *wire.Message) string {
	at, _ := m.Param("uri")
	return string(m.Bytes(at))
}

// errNotBegun is of what is asked in a session before its initialize is answered.
var errNotBegun = refusef(wire.CodeInvalidRequest, "the session is not initialized yet")

// restore opens a link and tells the plugin what it has to know of the session,
// and the client that lists may have changed.
func (s *session) restore(a *attachment, b *backend) (*link, error) {
	if !s.memory.begun() {
		return nil, errNotBegun
	}
	ctx, cancel := context.WithTimeoutCause(b.ctx, restoreTimeout, errors.New("it does not answer"))
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	l, err := b.open(ctx, s)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, l.cancel)() // a plugin that does not read holds up who sends
	said, err := s.retell(ctx, l)
	if err != nil {
		l.cancel()
		return nil, b.service.unavailable(fmt.Sprintf("the session could not be opened: %v", err))
	}
	if err := a.adopt(s, l); err != nil {
		return nil, err
	}
	// What the client says from now on is sent on the link too.
	if err := said.rest(ctx, l, s.memory.kept(b.service)); err != nil {
		return nil, b.service.errLost()
	}
	s.tellChanges()
	return l, nil
}

// kept is what of a session a plugin has to know.
type kept struct {
	initialized *wire.Message
	level       *wire.Message
	others      []*wire.Message // subscriptions
}

func (y *memory) kept(service *Service) kept {
	y.mu.Lock()
	defer y.mu.Unlock()
	k := kept{initialized: y.initialized, level: y.level}
	for _, s := range y.subscriptions {
		if s.service == service {
			k.others = append(k.others, s.request)
		}
	}
	return k
}

// rest says what is kept now and was not said before.
func (k kept) rest(ctx context.Context, l *link, now kept) error {
	if now.initialized == nil {
		return nil
	}
	if k.initialized == nil {
		if err := l.send(ctx, now.initialized.Raw); err != nil {
			return err
		}
	}
	requests := now.others
	if now.level != nil && now.level != k.level {
		requests = append(requests, now.level)
	}
	for _, m := range requests {
		if slices.Contains(k.others, m) {
			continue
		}
		// What the plugin refuses now it will not do.
		if _, err := l.ask(ctx, m); err != nil && ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// retell says on a new link what the plugin has to know of the session, and
// returns it.
func (s *session) retell(ctx context.Context, l *link) (said kept, err error) {
	s.memory.mu.Lock()
	initialize, version, pinned := s.memory.initialize, s.memory.version, s.memory.pinned
	s.memory.mu.Unlock()
	answer, err := l.ask(ctx, initialize)
	if err != nil {
		return kept{}, err
	}
	if now := agreed(answer); pinned && now != version {
		s.end()
		return kept{}, fmt.Errorf("the plugin speaks revision %q now, and not %q: begin another session", now, version)
	}
	said = s.memory.kept(l.backend.service)
	return said, kept{}.rest(ctx, l, said)
}

// tellChanges tells the client that lists may have changed.
func (s *session) tellChanges() {
	s.memory.mu.Lock()
	changes := s.memory.changes
	s.memory.mu.Unlock()
	s.changed(changes...)
}

// ask has the plugin answer a request of which the client does not know.
func (l *link) ask(ctx context.Context, m *wire.Message) (*wire.Message, error) {
	answers := make(chan *wire.Message, 1)
	c := &call{settle: func(answer *wire.Message) { answers <- answer }}
	c.out.init()
	if err := l.begin(c); err != nil {
		return nil, err
	}
	l.sendCall(ctx, c, m, nil)
	select {
	case answer := <-answers:
		switch {
		case answer == nil:
			return nil, l.backend.service.errLost()
		case answer.Error.Found():
			return nil, newPluginError(m, answer)
		}
		return answer, nil
	case <-ctx.Done():
		l.forget(c)
		return nil, context.Cause(ctx)
	}
}

// pluginError is a plugin's answer to a request of the relay's own.
type pluginError struct {
	method string
	code   int
	object []byte
}

func newPluginError(m, answer *wire.Message) error {
	at, _ := answer.Find(answer.Error, "code")
	code, _ := strconv.Atoi(string(answer.Bytes(at))) // 0 is no code
	return &pluginError{string(m.Method), code, answer.Bytes(answer.Error)}
}

func (e *pluginError) Error() string {
	return fmt.Sprintf("it answers %s with the error %s", e.method, e.object)
}
