package relay

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/shared/mcphttp"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// answerGrace is how long after a plugin's exit its answers are still read, when
// a process that it left behind holds the connection open. What the plugin itself
// sent has arrived by then.
const answerGrace = 250 * time.Millisecond

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

	mu       sync.Mutex
	closed   bool
	backend  *backend // the instance that can be called, or nil
	why      string   // why there is none
	tools    config.Tools
	headers  map[string][]mcphttp.ParamHeader // by tool
	watchers []watcher
}

// watcher is told of a service.
type watcher interface {
	// connected is told of an instance that can be called.
	connected(*backend)
	// offered is told that other tools are offered.
	offered()
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

// watch has somebody be told of the service.
func (s *Service) watch(w watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers = append(slices.Clip(s.watchers), w)
}

// Connect has calls go to a plugin that is ready.
func (s *Service) Connect(plugin Plugin) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.backend != nil && s.backend.plugin == plugin {
		return
	}
	b := newBackend(s, plugin)
	s.backend, s.why = b, ""
	s.running.Go(b.watch)
	for _, w := range s.watchers {
		s.running.Go(func() { w.connected(b) })
	}
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
	s.mu.Lock()
	same := slices.Equal(s.tools.Allow, tools.Allow) && slices.Equal(s.tools.Deny, tools.Deny)
	s.tools = tools
	watchers := s.watchers
	s.mu.Unlock()
	if same {
		return
	}
	for _, w := range watchers {
		w.offered()
	}
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
	return fmt.Errorf("service %s cannot be called: %s", s.name, why)
}

// errLost is of a call whose plugin ended, or its stream.
func (s *Service) errLost() error {
	return fmt.Errorf("service %s ended during the call, which is not repeated: it may have been carried out", s.name)
}

// visible returns what decides which tools are seen with some grants, or nil if
// that is all of them.
func (s *Service) visible(g Grants) func(tool string) bool {
	s.mu.Lock()
	tools := s.tools
	s.mu.Unlock()
	if !g.Restricted() && len(tools.Deny) == 0 && slices.Equal(tools.Allow, []string{"*"}) {
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
}

func newBackend(s *Service, plugin Plugin) *backend {
	b := &backend{service: s, plugin: plugin, client: plughostv1.NewMCPClient(plugin.Conn())}
	b.ctx, b.cancel = context.WithCancel(s.life)
	return b
}

// watch ends all that was opened to the instance when it is gone.
func (b *backend) watch() {
	defer b.cancel()
	select {
	case <-b.plugin.Exited():
	case <-b.service.life.Done():
		return
	}
	select {
	case <-time.After(answerGrace):
	case <-b.service.life.Done():
	}
}
