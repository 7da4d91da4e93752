package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
	"github.com/plughost/plughost/shared/wire"
)

const (
	// listTimeout bounds one reading of a plugin's lists.
	listTimeout = 30 * time.Second
	// minPause is at least between two readings.
	minPause = 100 * time.Millisecond
	// maxRetryDelay bounds how long what could not be read is left.
	maxRetryDelay = 5 * time.Minute
	// maxListed and maxListedBytes bound each of them: a plugin whose pages never
	// end must not fill the host's memory.
	maxListed      = 10_000
	maxListedBytes = 64 << 20
)

// kind is what a list is of.
type kind int

const (
	kindTools kind = iota
	kindPrompts
	kindResources
	kindTemplates
	kindCount
)

// listing is how a kind is listed.
type listing struct {
	method     string
	member     string // of the result, that is the list
	capability string // of who has such a list, and by which its changes are told
	key        string // the member by which one is named
}

// changed is the notification that such a list has changed.
func (l listing) changed() string { return "notifications/" + l.capability + "/list_changed" }

// changedList is the list of whose change a notification tells, or empty.
func changedList(method string) string {
	for _, l := range listings {
		if method == l.changed() {
			return l.capability
		}
	}
	return ""
}

var listings = [kindCount]listing{
	kindTools:     {"tools/list", "tools", "tools", "name"},
	kindPrompts:   {"prompts/list", "prompts", "prompts", "name"},
	kindResources: {"resources/list", "resources", "resources", "uri"},
	kindTemplates: {"resources/templates/list", "resourceTemplates", "resources", "uriTemplate"},
}

// features are what a service has, as its plugin lists it. They do not change.
type features struct {
	lists        [kindCount][]*entry
	tools        map[string]*entry // by the service's own names
	instructions string
	subscribes   bool // clients can subscribe to resources
	listsTasks   bool // clients can list their tasks
}

// catalogue is the reading of what an instance of a plugin has, in a session of its
// own, since in one a plugin tells of changed lists by itself. It is read again,
// list by list, when the plugin says so.
type catalogue struct {
	backend *backend

	failures int // one after the other

	mu    sync.Mutex
	stale [kindCount]bool
	wake  chan struct{} // holds one when something has become stale
}

// follow keeps the catalogue of an instance for as long as it lives.
func (b *backend) follow() {
	defer b.reading.ended()
	for {
		err := b.catalogue()
		if b.ctx.Err() != nil {
			err = b.service.unavailable("it has ended")
		}
		b.introduced(err)
		if !b.current() {
			return
		}
		b.service.log.Error("what the plugin has is read again later", "reason", err)
		select {
		case <-time.After(retryDelay):
		case <-b.ctx.Done():
		}
	}
}

// current reports whether the instance is the one that can be called.
func (b *backend) current() bool {
	b.service.mu.Lock()
	defer b.service.mu.Unlock()
	return b.service.backend == b && b.ctx.Err() == nil
}

// catalogue reads what the instance has until the link ends, and says why it did.
func (b *backend) catalogue() error {
	c := &catalogue{backend: b, wake: make(chan struct{}, 1)}
	l, err := b.open(b.ctx, c)
	if err != nil {
		return err
	}
	defer l.cancel()
	has, err := c.greet(l)
	if err != nil {
		return fmt.Errorf("its session could not be opened: %w", err)
	}
	b.introduced(nil)
	b.reading.due(l.ctx)
	for {
		began := time.Now()
		c.refresh(l, has)
		b.reading.ended()
		rested := time.After(pause(time.Since(began)))
		select {
		case <-c.wake:
		case <-c.retry():
		case <-l.ctx.Done():
			return errors.New("its session ended")
		}
		select {
		case <-rested:
		case <-l.ctx.Done():
			return errors.New("its session ended")
		}
	}
}

// pause is for how long nothing is read after a reading that took some time: one
// that says all the time that its lists have changed costs little of the host's.
func pause(took time.Duration) time.Duration { return min(max(minPause, 10*took), listTimeout) }

// greet opens the session, and returns what the plugin says of itself. All lists
// that it has are to be read.
func (c *catalogue) greet(l *link) (has *features, err error) {
	answer, err := greet(l.ctx, l)
	if err != nil {
		return nil, err
	}
	picked, err := answer.Pick(answer.Result, "capabilities", "instructions")
	if err != nil {
		return nil, err
	}
	instructions, _ := wire.Text(answer.Bytes(picked[1]))
	has = &features{instructions: string(instructions)}
	capabilities, err := answer.Pick(picked[0], "tools", "prompts", "resources", "tasks")
	if err != nil {
		return nil, err
	}
	stale := [kindCount]bool{kindTools: capabilities[0].Found(), kindPrompts: capabilities[1].Found(), kindResources: capabilities[2].Found(), kindTemplates: capabilities[2].Found()}
	for k, list := range c.backend.service.latest().lists {
		if stale[k] {
			has.lists[k] = list // until it was read
		}
	}
	c.mu.Lock()
	c.stale = stale
	c.mu.Unlock()
	subscribe, err := answer.Find(capabilities[2], "subscribe")
	has.subscribes = err == nil && string(answer.Bytes(subscribe)) == "true"
	tasks, err := answer.Find(capabilities[3], "list")
	has.listsTasks = err == nil && tasks.Found()
	return has, nil
}

// take returns the lists that are to be read.
func (c *catalogue) take() (stale [kindCount]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stale, c.stale = c.stale, [kindCount]bool{}
	return stale
}

// retry returns what is sent to when what could not be read is to be read again,
// or nil. It takes longer each time.
func (c *catalogue) retry() <-chan time.Time {
	if c.failures == 0 {
		return nil
	}
	return time.After(min(retryDelay<<min(c.failures-1, 10), maxRetryDelay))
}

// refresh reads what is stale, all at once, into has. What cannot be read stays
// as it was, and stale.
func (c *catalogue) refresh(l *link, has *features) {
	ctx, cancel := context.WithTimeoutCause(l.ctx, listTimeout, errors.New("it does not answer"))
	defer cancel()
	stale := c.take()
	var read [kindCount][]*entry
	var failed [kindCount]error
	var reading sync.WaitGroup
	for k := range stale {
		if stale[k] {
			reading.Go(func() { read[k], failed[k] = c.list(ctx, l, kind(k)) })
		}
	}
	reading.Wait()
	if l.ctx.Err() != nil {
		return
	}
	c.failures++
	if errors.Join(failed[:]...) == nil {
		c.failures = 0
	}
	for k, err := range failed {
		switch {
		case err != nil:
			c.backend.service.log.Warn("cannot read what the plugin has", "list", listings[k].member, "error", err)
			c.mark(kind(k))
		case stale[k]:
			has.lists[k] = read[k]
		}
	}
	c.backend.service.has(c.backend, *has)
}

// mark notes that a list is to be read.
func (c *catalogue) mark(k kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stale[k] = true
}

// list reads all pages of a list. A server that has no such method has an empty
// one: many have resources, and no templates.
func (c *catalogue) list(ctx context.Context, l *link, k kind) ([]*entry, error) {
	r := pages{service: c.backend.service, kind: k, names: make(map[string]bool), cursors: make(map[string]bool)}
	params := "{}"
	for {
		answer, err := askFor(ctx, l, listings[k].method, params)
		var refused *pluginError
		switch {
		case errors.As(err, &refused) && refused.code == wire.CodeMethodNotFound:
			return r.entries, nil
		case err != nil:
			return nil, err
		}
		cursor, err := r.take(answer)
		if err != nil || cursor == nil {
			return r.entries, err
		}
		params = fmt.Sprintf(`{"cursor":%s}`, cursor)
	}
}

// pages are those of a list that were read.
type pages struct {
	service        *Service
	kind           kind
	entries        []*entry
	bytes          int             // of all objects
	names, cursors map[string]bool // that there were
}

// take takes a page, and returns the cursor of the next one, as JSON, or nil.
func (r *pages) take(answer *wire.Message) (cursor []byte, err error) {
	picked, err := answer.Pick(answer.Result, listings[r.kind].member, "nextCursor")
	if err != nil {
		return nil, err
	}
	for object := range answer.Elements(picked[0]) {
		r.bytes += object.End - object.Start
		if len(r.entries) == maxListed || r.bytes > maxListedBytes {
			return nil, fmt.Errorf("it lists more than %d %s, or more than %d bytes", maxListed, listings[r.kind].member, maxListedBytes)
		}
		r.add(answer, object)
	}
	cursor = answer.Bytes(picked[1])
	next, ok := wire.Text(cursor)
	switch {
	case !ok || len(next) == 0:
		return nil, nil
	case r.cursors[string(next)]:
		return nil, fmt.Errorf("its pages of %s never end", listings[r.kind].member)
	}
	r.cursors[string(next)] = true
	return cursor, nil
}

// add adds an object of a page, if clients can make sense of it. The first of a
// name counts.
func (r *pages) add(answer *wire.Message, object wire.Span) {
	e, err := newEntry(r.service, r.kind, answer, object)
	if err != nil {
		r.service.log.Warn("cannot show what the plugin has", "list", listings[r.kind].member, "reason", err)
		return
	}
	if !r.names[e.own] {
		r.names[e.own] = true
		r.entries = append(r.entries, e)
	}
}

// received takes what the plugin sends by itself.
func (c *catalogue) received(l *link, _ *plughostv1.Frame, m *wire.Message) {
	if m.Kind == wire.Request {
		c.answer(l, m)
		return
	}
	for k, listing := range listings {
		if string(m.Method) != listing.changed() {
			continue
		}
		c.mark(kind(k))
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}

// answer answers what the plugin asks: a ping, since it can expect nothing else.
func (c *catalogue) answer(l *link, m *wire.Message) {
	if string(m.Method) != "ping" {
		l.refuse(m, wire.CodeMethodNotFound, "the client that reads the lists has no such method")
		return
	}
	l.post(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{}}`, m.Bytes(m.ID)))
}

func (c *catalogue) lost(*link) {}

// askFor has the plugin answer a request of the relay's own.
func askFor(ctx context.Context, l *link, method, params string) (*wire.Message, error) {
	encoded, err := json.Marshal(method)
	if err != nil {
		return nil, err
	}
	m, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":0,"method":%s,"params":%s}`, encoded, params))
	if err != nil {
		return nil, err
	}
	return l.ask(ctx, &m)
}
