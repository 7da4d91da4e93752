package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/plughost/plughost/host/internal/supervise"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
	"github.com/plughost/plughost/shared/tunnel"
)

// maxA2ARequest bounds a request to an agent, which may hold files.
const maxA2ARequest = 16 << 20

// agent is one agent as the gateway sees it: A2A in front of it, and the view
// of the MCP tools that it was granted.
type agent struct {
	*common
	name    string
	tools   *view
	handler http.Handler
	log     hclog.Logger

	mu       sync.Mutex
	plugin   Plugin
	why      string             // why there is no plugin
	endTools context.CancelFunc // ends the stream of the tools
}

func newAgent(name string, c *common) *agent {
	return &agent{
		common:   c,
		name:     name,
		log:      c.log.With("service", "agent."+name),
		why:      "it is not started yet",
		endTools: func() {},
	}
}

// changed follows a transition of the service.
func (a *agent) changed(change supervise.Change) {
	if plugin, ok := change.Running.(Plugin); ok && change.State == supervise.Ready {
		a.connect(plugin)
		return
	}
	a.disconnect(unavailable(change.Status))
}

// connect gives the agent its tools and takes requests for it.
func (a *agent) connect(plugin Plugin) {
	if a.life.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(a.life)
	a.mu.Lock()
	a.endTools()
	a.plugin, a.why, a.endTools = plugin, "", cancel
	a.mu.Unlock()
	a.sessions.Go(func() {
		defer cancel()
		a.giveTools(ctx, plugin)
	})
}

// disconnect lets no request begin any more. Those in flight go on, and the
// agent keeps its tools to finish them with: both end with its process.
func (a *agent) disconnect(why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.plugin, a.why = nil, why
}

// giveTools serves the agent its tools until ctx or the agent ends. A stream
// that the agent ends is opened again after a while.
func (a *agent) giveTools(ctx context.Context, plugin Plugin) {
	for {
		err := a.serveTools(ctx, plugin)
		switch {
		case ctx.Err() != nil:
			return
		case status.Code(err) == codes.Unimplemented:
			return // it wants none
		}
		select {
		case <-ctx.Done():
			return
		case <-plugin.Exited():
			return
		case <-time.After(a.reconnectDelay):
			a.log.Warn("the agent's tools ended and are given again", "reason", err)
		}
	}
}

// serveTools opens the stream on which the agent is the MCP client, and serves
// it until ctx or the agent ends.
func (a *agent) serveTools(ctx context.Context, plugin Plugin) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := plughostv1.NewHostClient(plugin.Conn()).Tools(ctx)
	if err != nil {
		return err
	}
	session, err := a.tools.server.Connect(ctx, tunnel.Transport(stream, cancel), nil)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-plugin.Exited():
			cancel()
		case <-ended:
		}
	}()
	if err := session.Wait(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// endpoints serves the agent at path.
func (a *agent) endpoints(path string) http.Handler {
	mux := http.NewServeMux()
	handler := a2asrv.NewJSONRPCHandler(&forward{agent: a})
	rpc := http.MaxBytesHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.WithValue(r.Context(), urlKey{}, url(r, path))
		handler.ServeHTTP(w, r.WithContext(ctx))
	}), maxA2ARequest)
	mux.Handle(path, rpc)
	mux.Handle(path+"/{$}", rpc)
	mux.HandleFunc(path+a2asrv.WellKnownAgentCardPath, func(w http.ResponseWriter, r *http.Request) {
		card, err := a.card(url(r, path))
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		a2asrv.NewStaticAgentCardHandler(card).ServeHTTP(w, r)
	})
	return mux
}

// urlKey finds the agent's URL, as its client wrote it, in a request's context.
type urlKey struct{}

func url(r *http.Request, path string) string { return "http://" + r.Host + path }

// card is the agent's own card with the gateway's URL in it.
func (a *agent) card(url string) (*a2a.AgentCard, error) {
	plugin, err := a.running()
	if err != nil {
		return nil, err
	}
	var card a2a.AgentCard
	if err := json.Unmarshal(plugin.Describe().GetAgentCard(), &card); err != nil {
		return nil, fmt.Errorf("agent %s has no usable card: %w", a.name, err)
	}
	readdress(&card, url)
	return &card, nil
}

// readdress makes a card point at the gateway.
func readdress(card *a2a.AgentCard, url string) {
	card.SupportedInterfaces = []*a2a.AgentInterface{a2a.NewAgentInterface(url, a2a.TransportProtocolJSONRPC)}
}

func (a *agent) running() (Plugin, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.plugin == nil {
		return nil, fmt.Errorf("agent %s cannot be called: %s", a.name, a.why)
	}
	return a.plugin, nil
}

// current is where requests for the agent go now.
func (a *agent) current() (transport, error) {
	plugin, err := a.running()
	if err != nil {
		return nil, a2a.NewError(a2a.ErrServerError, err.Error())
	}
	conn := &agentConn{ClientConnInterface: plugin.Conn(), name: a.name}
	return a2agrpc.NewGRPCTransportFromClient(a2apb.NewA2AServiceClient(conn)), nil
}
