package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"

	"github.com/plughost/plughost/host/internal/config"
)

const (
	// maxPushConfigs bounds the configurations of a task, and maxPushTasks the
	// tasks that have some.
	maxPushConfigs = 16
	maxPushTasks   = 1000
	// maxNotifications bounds those that wait to be sent to one URL, and
	// maxNotificationBytes what they hold; the oldest are dropped.
	maxNotifications     = 100
	maxNotificationBytes = 4 << 20
	// pushAttempts bounds the tries to send one.
	pushAttempts = 3
	// pushTimeout bounds one try.
	pushTimeout = 10 * time.Second
	// pushRetryDelay is before the second try, and doubled before each other.
	pushRetryDelay = time.Second
)

// pushes are the push notifications of an agent's tasks. The gateway sends them,
// and not the agent: it can tell that the agent has ended, and where they may go
// is the operator's to say.
type pushes struct {
	start func(func())
	knows func(a2a.TaskID) bool // whether the task is still remembered
	life  context.Context
	log   hclog.Logger
	named sender // for hosts that the configuration names
	any   sender // for others
	delay time.Duration

	mu      sync.Mutex
	allowed config.Push
	of      map[a2a.TaskID]map[string]*pushed
}

// pushed is where notifications of a task are sent.
type pushed struct {
	config  *a2a.PushConfig
	waiting [][]byte // as they are sent
	size    int      // of all that wait
	sending bool
}

func newPushes(life context.Context, start func(func()), knows func(a2a.TaskID) bool, log hclog.Logger) *pushes {
	return &pushes{
		start: start,
		knows: knows,
		life:  life,
		log:   log,
		named: newSender(nil),
		any:   newSender(publicOnly),
		delay: pushRetryDelay,
		of:    make(map[a2a.TaskID]map[string]*pushed),
	}
}

// configure changes where notifications may be sent.
func (p *pushes) configure(allowed config.Push) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.allowed = allowed
}

// supported reports whether any may be.
func (p *pushes) supported() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.allowed.Allow) > 0
}

// check is why a configuration is not taken.
func (p *pushes) check(c *a2a.PushConfig) error {
	if !p.supported() {
		return a2a.ErrPushNotificationNotSupported
	}
	_, err := p.sender(c.URL)
	return err
}

// sender returns what sends to a URL, if that is allowed.
func (p *pushes) sender(to string) (sender, error) {
	u, err := url.Parse(to)
	if err != nil {
		return sender{}, a2a.NewError(a2a.ErrInvalidParams, "the URL of the push notifications is not a URL")
	}
	p.mu.Lock()
	allowed, named := p.allowed.Allows(u)
	p.mu.Unlock()
	switch {
	case !allowed:
		return sender{}, a2a.NewError(a2a.ErrInvalidParams,
			fmt.Sprintf("push notifications may not be sent to %s://%s: the operator has not allowed it", u.Scheme, u.Host))
	case named:
		return p.named, nil
	default:
		return p.any, nil
	}
}

// add takes a configuration for a task, in the place of one with the same id.
func (p *pushes) add(task a2a.TaskID, c *a2a.PushConfig) (*a2a.PushConfig, error) {
	if err := p.check(c); err != nil {
		return nil, err
	}
	taken := *c
	taken.TaskID = task
	if taken.ID == "" {
		taken.ID = uuid.NewString()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of[task] == nil && len(p.of) == maxPushTasks {
		maps.DeleteFunc(p.of, func(id a2a.TaskID, _ map[string]*pushed) bool { return !p.knows(id) })
	}
	of := p.of[task]
	switch before, known := of[taken.ID]; {
	case known:
		before.drop()
	case of == nil && len(p.of) == maxPushTasks, len(of) == maxPushConfigs:
		return nil, a2a.NewError(a2a.ErrServerError, "there are too many push notification configurations")
	case of == nil:
		of = make(map[string]*pushed)
		p.of[task] = of
	}
	of[taken.ID] = &pushed{config: &taken}
	return &taken, nil
}

// list returns the configurations of a task, by their ids.
func (p *pushes) list(task a2a.TaskID) []*a2a.PushConfig {
	p.mu.Lock()
	defer p.mu.Unlock()
	configs := []*a2a.PushConfig{}
	for _, id := range slices.Sorted(maps.Keys(p.of[task])) {
		configs = append(configs, p.of[task][id].config)
	}
	return configs
}

// remove drops a configuration, and what waits to be sent for it.
func (p *pushes) remove(task a2a.TaskID, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if to := p.of[task][id]; to != nil {
		to.drop()
	}
	p.forget(task, id)
}

// forget drops a configuration. The lock is held.
func (p *pushes) forget(task a2a.TaskID, id string) {
	delete(p.of[task], id)
	if len(p.of[task]) == 0 {
		delete(p.of, task)
	}
}

// wanted reports whether anybody wants to be notified of a task.
func (p *pushes) wanted(task a2a.TaskID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.of[task]) > 0
}

// notify sends an event to all who want to be notified of its task. After the
// last one nobody is any more.
func (p *pushes) notify(event a2a.Event) {
	task := event.TaskInfo().TaskID
	if !p.wanted(task) {
		return
	}
	body := p.encode(event)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, to := range p.of[task] {
		p.enqueue(to, body)
	}
	if stateOf(event).Terminal() {
		delete(p.of, task)
	}
}

// begin notifies one of what the task is, the first that it is told.
func (p *pushes) begin(c *a2a.PushConfig, task *a2a.Task) {
	body := p.encode(task)
	p.mu.Lock()
	defer p.mu.Unlock()
	if to := p.of[task.ID][c.ID]; to != nil {
		p.enqueue(to, body)
	}
	if task.Status.State.Terminal() {
		p.forget(task.ID, c.ID)
	}
}

// encode is an event as it is sent, or nothing if it cannot be.
func (p *pushes) encode(event a2a.Event) []byte {
	body, err := json.Marshal(a2a.StreamResponse{Event: event})
	if err != nil {
		p.log.Warn("a push notification cannot be sent", "task", event.TaskInfo().TaskID, "reason", err)
		return nil
	}
	return body
}

// enqueue has a notification sent after those that wait. The lock is held.
func (p *pushes) enqueue(to *pushed, body []byte) {
	if body == nil {
		return
	}
	to.waiting = append(to.waiting, body)
	to.size += len(body)
	for len(to.waiting) > maxNotifications || to.size > maxNotificationBytes && len(to.waiting) > 1 {
		to.next()
	}
	if !to.sending {
		to.sending = true
		p.start(func() { p.send(to) })
	}
}

// next takes the oldest that waits.
func (to *pushed) next() []byte {
	body := to.waiting[0]
	to.waiting = to.waiting[1:]
	to.size -= len(body)
	return body
}

// drop lets nothing wait any more.
func (to *pushed) drop() { to.waiting, to.size = nil, 0 }

// send sends what waits, one after the other.
func (p *pushes) send(to *pushed) {
	for {
		p.mu.Lock()
		if len(to.waiting) == 0 || p.life.Err() != nil {
			to.sending = false
			p.mu.Unlock()
			return
		}
		body := to.next()
		p.mu.Unlock()
		if err := p.deliver(to.config, body); err != nil {
			p.log.Warn("a push notification could not be sent", "task", to.config.TaskID, "reason", err)
		}
	}
}

// deliver sends one notification, and tries again what may go well then.
func (p *pushes) deliver(c *a2a.PushConfig, body []byte) error {
	delay := p.delay
	for attempt := 1; ; attempt++ {
		s, err := p.sender(c.URL) // which may not be allowed any more
		if err != nil {
			return err
		}
		err = s.post(p.life, c, body)
		var refused *refusedError
		if err == nil || attempt == pushAttempts || errors.As(err, &refused) {
			return err
		}
		select {
		case <-time.After(delay):
			delay *= 2
		case <-p.life.Done():
			return err
		}
	}
}

// refusedError is the error of a notification that need not be tried again.
type refusedError struct{ error }

func (e *refusedError) Unwrap() error { return e.error }

// post sends a notification once.
func (s sender) post(ctx context.Context, c *a2a.PushConfig, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		return &refusedError{err}
	}
	request.Header.Set("Content-Type", "application/json")
	authorize(request.Header, c)
	response, err := s.client.Do(request)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // without the URL, which may hold a secret
		}
		if errors.Is(err, errNotPublic) {
			err = &refusedError{err}
		}
		return err
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, 64<<10)
	switch code := response.StatusCode; {
	case code/100 == 2:
		return nil
	case code >= 500 || code == http.StatusTooManyRequests:
		return fmt.Errorf("it was answered with %s", response.Status)
	default:
		return &refusedError{fmt.Errorf("it was answered with %s", response.Status)}
	}
}

// authorize sets what the receiver knows a notification by.
func authorize(header http.Header, c *a2a.PushConfig) {
	if c.Token != "" {
		header.Set("A2A-Notification-Token", c.Token)
		header.Set("X-A2A-Notification-Token", c.Token) // of 0.3
	}
	if c.Auth == nil || c.Auth.Credentials == "" {
		return
	}
	switch strings.ToLower(c.Auth.Scheme) {
	case "bearer":
		header.Set("Authorization", "Bearer "+c.Auth.Credentials)
	case "basic":
		header.Set("Authorization", "Basic "+c.Auth.Credentials)
	}
}
