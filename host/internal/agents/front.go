// Package agents is the A2A front of the agents: it serves each one to clients,
// whichever instance of it runs, and a catalogue of all.
//
// Clients speak to a Front; it speaks a2a-go's gRPC service to the agent.
package agents

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"

	"github.com/plughost/plughost/shared/a2ahttp"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// Plugin is what a Front needs of a running instance of its agent.
type Plugin interface {
	Conn() *grpc.ClientConn
	Describe() *plughostv1.DescribeResponse
}

// Front serves one agent to A2A clients.
type Front struct {
	name    string
	handler http.Handler

	mu     sync.Mutex
	plugin Plugin
	why    string // why there is no plugin
	card   *a2a.AgentCard
}

// NewFront makes the front of an agent, to be served at Path(name) and below.
func NewFront(name string) *Front {
	f := &Front{name: name, why: "it is not started yet"}
	f.handler = a2ahttp.Handler(&forward{front: f}, f.currentCard)
	return f
}

// Path is where an agent is served.
func Path(name string) string { return CataloguePath + name }

// Connect has requests go to an instance.
func (f *Front) Connect(plugin Plugin) {
	card, err := readCard(plugin.Describe().GetAgentCard())
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.plugin, f.why = nil, fmt.Sprintf("it has no usable card: %v", err)
		return
	}
	f.plugin, f.why, f.card = plugin, "", card
}

// Disconnect lets no request begin any more, and says why. Those in flight go
// on, and end with the agent's process.
func (f *Front) Disconnect(why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plugin, f.why = nil, why
}

// ServeHTTP serves the agent at its path, and what is below.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	below := r.Clone(withURL(r.Context(), origin(r)+Path(f.name)))
	below.URL.Path = "/" + strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, Path(f.name)), "/")
	below.URL.RawPath = ""
	f.handler.ServeHTTP(w, below)
}

func (f *Front) running() (Plugin, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.plugin == nil {
		return nil, fmt.Errorf("agent %s cannot be called: %s", f.name, f.why)
	}
	return f.plugin, nil
}

// current is where requests for the agent go now.
func (f *Front) current() (transport, error) {
	plugin, err := f.running()
	if err != nil {
		return nil, a2a.NewError(a2a.ErrServerError, err.Error())
	}
	conn := &agentConn{ClientConnInterface: plugin.Conn(), name: f.name}
	return a2agrpc.NewGRPCTransportFromClient(a2apb.NewA2AServiceClient(conn)), nil
}
