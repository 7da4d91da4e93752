package relay

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/plughost/plughost/host/internal/config"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// answerGrace is how long after a plugin's exit its answers are still read, when
// a process that it left behind holds the connection open. What the plugin itself
// sent has arrived by then. It is waited in parts: a host that was held up reads
// nothing meanwhile, and has lost one of them at most.
const (
	answerGrace      = 250 * time.Millisecond
	answerGraceParts = 5
)

// retryDelay is between two tries to read what a plugin that runs has.
const retryDelay = 5 * time.Second

// Plugin is a running instance of a service.
type Plugin interface {
	Conn() *grpc.ClientConn
	// Exited is closed when the plugin's process has ended.
	Exited() <-chan struct{}
}

// Service is an MCP service, whose plugin comes and goes. Connect and Disconnect
// tell it of that.
type Service struct {
	name string
	log  hclog.Logger

	life    context.Context // ended by Close
	end     context.CancelFunc
	running sync.WaitGroup

	showing sync.Mutex // held from a change of what is shown until it is

	mu       sync.Mutex
	closed   bool
	backend  *backend    // the instance that can be called, or nil
	why      string      // why there is none
	read     atomic.Bool // it is known what the service has
	tools    config.Tools
	features features
	watchers []watcher
}

// watcher is told of a service.
type watcher interface {
	// connected is told of an instance that can be called.
	connected(*backend)
	// offered is told that other tools are offered, and what a service has.
	offered(*Service, features)
	// listed is told what a service has.
	listed(*Service, features)
}

// NewService makes a service that is not started yet, which offers some of its
// tools.
func NewService(name string, tools config.Tools, log hclog.Logger) *Service {
	s := &Service{name: name, log: log, why: "it is not started yet", tools: tools}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Name is the service's.
func (s *Service) Name() string { return s.name }

// watch has somebody be told of the service, also of what it has now.
func (s *Service) watch(w watcher) {
	s.showing.Lock()
	defer s.showing.Unlock()
	s.mu.Lock()
	s.watchers = append(slices.Clip(s.watchers), w)
	shown := s.shown()
	s.mu.Unlock()
	w.listed(s, shown)
}

// unwatch takes back a watch.
func (s *Service) unwatch(w watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers = slices.DeleteFunc(slices.Clone(s.watchers), func(other watcher) bool { return other == w })
}

// shown is what the service has, without the tools that it does not offer. The
// lock is held.
func (s *Service) shown() features {
	shown := s.features
	if !offersAll(s.tools) {
		shown.lists[kindTools] = slices.DeleteFunc(slices.Clone(shown.lists[kindTools]), func(e *entry) bool { return !s.tools.Offers(e.own) })
	}
	return shown
}

func offersAll(tools config.Tools) bool {
	return len(tools.Deny) == 0 && slices.Equal(tools.Allow, []string{"*"})
}

// show changes what is shown, and tells those who watch.
func (s *Service) show(change func() (told func(watcher, features))) {
	s.showing.Lock()
	defer s.showing.Unlock()
	s.change(change)
}

// change does so, and reports whether something is shown. The lock of what is shown
// is held.
func (s *Service) change(change func() (told func(watcher, features))) bool {
	s.mu.Lock()
	told := change()
	shown, watchers := s.shown(), s.watchers
	s.mu.Unlock()
	if told == nil {
		return false
	}
	for _, w := range watchers {
		told(w, shown)
	}
	return true
}

// has takes what an instance has. It counts only if that is the one that can be
// called.
func (s *Service) has(b *backend, f features) {
	f.tools = make(map[string]*entry, len(f.lists[kindTools]))
	for _, e := range f.lists[kindTools] {
		f.tools[e.own] = e
	}
	s.showing.Lock()
	defer s.showing.Unlock()
	shown := s.change(func() func(watcher, features) {
		if s.backend != b {
			return nil
		}
		s.features = f
		return s.listed
	})
	if shown { // who asks from now on need not wait, and finds it
		s.read.Store(true)
	}
}

// Clear has the service have nothing: it was stopped, and does not come back by
// itself.
func (s *Service) Clear() {
	s.show(func() func(watcher, features) {
		s.features = features{}
		s.read.Store(false)
		return s.listed
	})
}

func (s *Service) listed(w watcher, f features)  { w.listed(s, f) }
func (s *Service) offered(w watcher, f features) { w.offered(s, f) }

// latest is what the service has.
func (s *Service) latest() features {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.features
}

// tool is one of the service's tools, or nil.
func (s *Service) tool(name string) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.features.tools[name]
}

// Introduce tells the service of a plugin before it is said to be ready, and
// returns when a session with it is open: who waits for the service can call it
// then. An error says why the plugin cannot be used; it is to be ended.
func (s *Service) Introduce(ctx context.Context, plugin Plugin) error {
	b := s.connect(plugin)
	var err error
	select {
	case <-b.met:
		err = b.failure
	case <-plugin.Exited():
		err = errors.New("it ended before a session with it was open")
	case <-ctx.Done():
		err = errors.New("a session with it was not open in time")
	}
	if err != nil {
		s.Disconnect(err.Error())
	}
	return err
}

// Connect has calls go to a plugin that is ready.
func (s *Service) Connect(plugin Plugin) { s.connect(plugin) }

func (s *Service) connect(plugin Plugin) *backend {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.backend != nil && s.backend.plugin == plugin {
		return s.backend
	}
	b := newBackend(s, plugin)
	if s.closed {
		b.introduced(s.unavailable(s.why))
		return b
	}
	s.backend, s.why = b, ""
	s.running.Go(b.watch)
	s.running.Go(b.follow)
	for _, w := range s.watchers {
		s.running.Go(func() { w.connected(b) })
	}
	return b
}

// Disconnect lets no call begin any more. Those in flight go on until the
// plugin ends.
func (s *Service) Disconnect(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backend, s.why = nil, why
}

// Offer changes what of the service's tools clients see and can call.
func (s *Service) Offer(tools config.Tools) {
	s.show(func() func(watcher, features) {
		same := slices.Equal(s.tools.Allow, tools.Allow) && slices.Equal(s.tools.Deny, tools.Deny)
		s.tools = tools
		if same {
			return nil
		}
		return s.offered
	})
}

// Close ends all links to the plugin, with their calls. Nothing of the service
// runs when it returns.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	s.backend, s.why = nil, "the host is shutting down"
	s.mu.Unlock()
	s.end()
	s.running.Wait()
}

// run runs a job in a goroutine that Close waits for, unless Close was called.
func (s *Service) run(job func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Go(job)
	return true
}

// current is the instance that can be called, or an error that says why there
// is none.
func (s *Service) current() (*backend, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.backend == nil {
		return nil, s.unavailable(s.why)
	}
	return s.backend, nil
}

func (s *Service) unavailable(why string) error {
	return refusef(codeUnavailable, "service %s cannot be called: %s", s.name, why)
}

// errGone is of what has come to be out of reach meanwhile.
func (s *Service) errGone() error { return s.unavailable("it is out of reach now") }

// errLost is of a call whose plugin ended, or its stream.
func (s *Service) errLost() error {
	return refusef(codeUnavailable, "service %s ended during the call, which is not repeated: it may have been carried out", s.name)
}

// visible returns what decides which tools are seen with some grants, or nil if
// that is all of them.
func (s *Service) visible(g Grants) func(tool string) bool {
	s.mu.Lock()
	tools := s.tools
	s.mu.Unlock()
	if !g.Restricted() && offersAll(tools) {
		return nil
	}
	return func(tool string) bool { return tools.Offers(tool) && g.Tool(s.name, tool) }
}

// backend is one instance of the plugin.
type backend struct {
	service *Service
	plugin  Plugin
	client  plughostv1.MCPClient
	ctx     context.Context // ended when the instance is gone
	cancel  context.CancelFunc

	meeting sync.Once
	met     chan struct{} // closed when a session with it was opened first, or could not be
	failure error         // why not
	reading reading

	asking  chan struct{} // holds one while alone is found out
	alone   *bool         // whether it takes requests without a session
	silent  error         // why that could not be found out
	askedAt time.Time     // when it could not

	leaving chan struct{} // holds one for each request that it is to end by itself
}

func newBackend(s *Service, plugin Plugin) *backend {
	b := &backend{
		service: s,
		plugin:  plugin,
		client:  plughostv1.NewMCPClient(plugin.Conn()),
		met:     make(chan struct{}),
		reading: newReading(),
		asking:  make(chan struct{}, 1),
		leaving: make(chan struct{}, maxLeaving),
	}
	b.ctx, b.cancel = context.WithCancel(s.life)
	return b
}

// introduced notes that what the instance has was read, or why it was not.
func (b *backend) introduced(err error) {
	b.meeting.Do(func() {
		b.failure = err
		close(b.met)
	})
}

// watch ends all that was opened to the instance when it is gone.
func (b *backend) watch() {
	defer b.cancel()
	select {
	case <-b.plugin.Exited():
	case <-b.service.life.Done():
		return
	}
	for range answerGraceParts {
		select {
		case <-time.After(answerGrace / answerGraceParts):
		case <-b.service.life.Done():
			return
		}
	}
}
