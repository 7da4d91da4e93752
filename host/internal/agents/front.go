// Package agents is the A2A front of the agents: it serves each one to clients,
// whichever instance of it runs, and a catalogue of all.
//
// Clients speak to a Front; it speaks a2a-go's gRPC service to the agent.
package agents

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/hashicorp/go-hclog"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/shared/a2ahttp"
)

// Front serves one agent to A2A clients.
type Front struct {
	name    string
	address *Address
	handler http.Handler
	life    context.Context
	running *sync.WaitGroup
	tasks   *tasks
	pushes  *pushes
	streams chan struct{} // holds one per stream

	mu       sync.Mutex
	instance *instance // that requests go to, or nil
	why      string    // why there is none
	last     *instance // that was connected, or nil
	card     *a2a.AgentCard
}

// NewFront makes the front of an agent, to be served at Path(name) and below the
// address. What it does by itself ends with life, and is in running until then.
func NewFront(life context.Context, name string, address *Address, running *sync.WaitGroup, log hclog.Logger) *Front {
	f := &Front{
		name:    name,
		address: address,
		life:    life,
		running: running,
		tasks:   newTasks(),
		streams: make(chan struct{}, maxStreams),
		why:     "it is not started yet",
	}
	f.pushes = newPushes(life, f.start, f.tasks.knows, log)
	f.handler = a2ahttp.Handler(&forward{Front: f}, f.currentCard)
	return f
}

// Path is where an agent is served.
func Path(name string) string { return CataloguePath + name }

// Connect has requests go to an instance, a new one or again to the one before.
func (f *Front) Connect(plugin Plugin) {
	card, err := readCard(plugin.Describe().GetAgentCard())
	if err != nil {
		f.Disconnect(fmt.Sprintf("it has no usable card: %v", err))
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == nil || f.last.plugin != plugin {
		f.last = newInstance(f.life, f.name, plugin)
		f.follow(f.last)
	}
	f.instance, f.why, f.card = f.last, "", card
}

// follow learns of the tasks that an instance has, and of its end.
func (f *Front) follow(i *instance) {
	f.start(func() {
		select {
		case <-i.plugin.Exited():
			f.lose(i, &endedError{agent: f.name, how: i.plugin.ExitError()})
		case <-f.life.Done():
		}
	})
	f.start(func() { f.takeOver(i) })
}

// Configure has the front follow what the configuration says of the agent. It
// is to be called before the agent is served.
func (f *Front) Configure(service config.Service) { f.pushes.configure(service.Push) }

// lose has the tasks fail that an instance had in hand when it ended.
func (f *Front) lose(i *instance, reason error) {
	for _, task := range f.tasks.lose(i, reason) {
		f.pushes.notify(ending(task))
	}
}

// ending is the event by which a task failed with its instance.
func ending(task *a2a.Task) a2a.Event {
	return &a2a.TaskStatusUpdateEvent{TaskID: task.ID, ContextID: task.ContextID, Status: task.Status}
}

// start does something beside, unless all is to end.
func (f *Front) start(job func()) {
	if f.life.Err() == nil {
		f.running.Go(job)
	}
}

// Disconnect lets no request begin any more, and says why. Those in flight go
// on, and end with the agent's process.
func (f *Front) Disconnect(why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.instance, f.why = nil, why
}

// ServeHTTP serves the agent at its path, and what is below.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	below := r.Clone(withURL(r.Context(), f.address.of(r)+Path(f.name)))
	below.URL.Path = "/" + strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, Path(f.name)), "/")
	below.URL.RawPath = ""
	f.handler.ServeHTTP(w, below)
}

// current is the instance that requests go to now.
func (f *Front) current() (*instance, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.instance == nil {
		return nil, a2a.NewError(a2a.ErrServerError, fmt.Sprintf("agent %s cannot be called: %s", f.name, f.why))
	}
	return f.instance, nil
}
