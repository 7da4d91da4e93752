package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/relay"
	"github.com/plughost/plughost/host/internal/supervise"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
	"github.com/plughost/plughost/shared/tunnel"
)

const (
	// tunnelRevision is spoken with plugins: the last that has sessions, so
	// that a plugin can tell the host of changed lists by itself.
	tunnelRevision = "2025-11-25"
	// connectTimeout bounds the first words with a plugin that is ready.
	connectTimeout = 30 * time.Second
	// answerGrace is how long after a plugin's exit its answers are still
	// read, when a process that it left behind holds the connection open. What
	// the plugin itself sent has arrived by then.
	answerGrace = 250 * time.Millisecond
	// codeUnavailable is the JSON-RPC error of a call that a service cannot
	// take, in the range left to implementations.
	codeUnavailable = -32000
)

// upstream is one MCP service as the gateway sees it: the link to its plugin,
// if there is one, the views that show it among others, and the relay of its own
// endpoint.
type upstream struct {
	*common
	name    string
	service *relay.Service
	relay   *relay.Relay // serves the service alone
	log     hclog.Logger

	showing sync.Mutex   // held from the choice of what is shown until it is
	tools   config.Tools // what of its tools is shown
	has     features     // all that the plugin says it has
	// names are the names of its tools.
	names atomic.Pointer[map[string]bool]

	mu    sync.Mutex
	views []*view
	link  *link // to the instance that is ready, or nil
	// introduced is the plugin that link is for, until it is said to be ready.
	introduced Plugin
	why        string // why it cannot be called
}

// link is the session with one instance of a plugin.
type link struct {
	ctx context.Context
	// cancel ends the session at once, and all calls in flight with it.
	cancel   context.CancelFunc
	progress progress
	// stale is set while a new reading of the lists waits, so that a plugin
	// which floods the host with changes has them read once more, not each time.
	stale atomic.Bool
	// session is nil while it is not open. The upstream's lock guards it.
	session *mcp.ClientSession
}

func newUpstream(name string, tools config.Tools, c *common) *upstream {
	u := &upstream{
		common: c,
		name:   name,
		tools:  tools,
		log:    c.log.With("service", "mcp."+name),
		why:    "it is not started yet",
	}
	options := c.relay
	options.Called = u.calledAlone
	u.service = relay.NewService(name, tools, u.log)
	u.relay = relay.New(u.service, options)
	return u
}

// changed follows a transition of the service.
func (u *upstream) changed(change supervise.Change) {
	if plugin, ok := change.Running.(Plugin); ok && change.State == supervise.Ready {
		if !u.known(plugin) {
			u.connect(nil, plugin)
		}
		return
	}
	// At once, so that no call is made any more.
	u.disconnect(unavailable(change.Status))
	if change.State == supervise.Stopped {
		u.then(func() { u.showAll(features{}) })
	}
}

// introduce opens the link to a plugin that is about to be ready, and returns
// when what it has is shown, or why it cannot be.
func (u *upstream) introduce(ctx context.Context, plugin Plugin) error {
	u.mu.Lock()
	u.introduced = plugin
	u.mu.Unlock()
	u.connect(nil, plugin)
	opened := make(chan struct{})
	u.then(func() { close(opened) }) // after the job that opens it
	select {
	case <-opened:
	case <-plugin.Exited():
	case <-ctx.Done():
	case <-u.life.Done():
	}
	u.mu.Lock()
	why := u.why
	u.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		why = "what it has was not read in time"
	case why == "":
		return nil
	}
	u.disconnect(why)
	return errors.New(why)
}

// known reports whether a plugin was introduced before it was ready.
func (u *upstream) known(plugin Plugin) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	known := u.introduced != nil && u.introduced == plugin
	u.introduced = nil
	return known
}

// then has a job done after those that this service has waiting.
func (u *upstream) then(job func()) { u.queue.add("mcp."+u.name, job) }

// connect opens a link to a plugin that is ready, in place of the given one,
// or, if that is nil, of whatever there is.
func (u *upstream) connect(old *link, plugin Plugin) {
	l := &link{}
	l.ctx, l.cancel = context.WithCancel(u.life)
	u.mu.Lock()
	if old != nil && u.link != old {
		u.mu.Unlock()
		l.cancel()
		return
	}
	replaced := u.link
	u.link, u.why = l, "its session is being opened"
	u.mu.Unlock()
	if replaced != nil {
		replaced.cancel()
	}
	u.service.Connect(plugin)
	u.then(func() { u.open(l, plugin) })
}

// open opens the session of a link and shows what the plugin has.
func (u *upstream) open(l *link, plugin Plugin) {
	session, err := u.dial(l, plugin)
	if err != nil {
		l.cancel()
		if u.lost(l, fmt.Sprintf("its session could not be opened: %v", err)) {
			u.log.Error("cannot open a session with the plugin", "error", err)
			u.sessions.Go(func() { u.reconnect(l, plugin) })
		}
		return
	}
	u.sessions.Go(func() { u.follow(l, session, plugin) })
	u.mu.Lock()
	current := u.link == l
	if current {
		l.session, u.why = session, ""
	}
	u.mu.Unlock()
	if !current {
		l.cancel()
		return
	}
	u.refresh(l)
}

func (u *upstream) dial(l *link, plugin Plugin) (*mcp.ClientSession, error) {
	stream, err := plughostv1.NewMCPClient(plugin.Conn()).Session(l.ctx)
	if err != nil {
		return nil, err
	}
	// A notification may come before the session is open: the job finds it
	// open, or not.
	refresh := func() {
		if !l.stale.Swap(true) {
			u.then(func() {
				l.stale.Store(false)
				u.refresh(l)
			})
		}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "plughost", Version: "1"}, &mcp.ClientOptions{
		Capabilities:               &mcp.ClientCapabilities{},
		ToolListChangedHandler:     func(context.Context, *mcp.ToolListChangedRequest) { refresh() },
		PromptListChangedHandler:   func(context.Context, *mcp.PromptListChangedRequest) { refresh() },
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { refresh() },
	})
	ctx, stop := context.WithTimeout(l.ctx, connectTimeout)
	defer stop()
	// The SDK waits for a message that is being sent, whatever its context.
	defer context.AfterFunc(ctx, l.cancel)()
	return client.Connect(ctx, l.progress.of(tunnel.Transport(stream, l.cancel)), &mcp.ClientSessionOptions{ProtocolVersion: tunnelRevision})
}

// follow waits for the end of a session, which is at the latest the plugin's,
// and opens another if the plugin goes on.
func (u *upstream) follow(l *link, session *mcp.ClientSession, plugin Plugin) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = session.Wait()
	}()
	select {
	case <-ended:
	case <-plugin.Exited():
		select {
		case <-ended:
		case <-time.After(answerGrace):
		}
	}
	l.cancel()
	<-ended
	if u.lost(l, "its session ended") {
		u.reconnect(l, plugin)
	}
}

// lost takes the session from a link and reports whether it is still the one
// that counts.
func (u *upstream) lost(l *link, why string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.link != l {
		return false
	}
	l.session, u.why = nil, why
	return true
}

// reconnect opens another link, if the plugin still runs after a while.
func (u *upstream) reconnect(l *link, plugin Plugin) {
	select {
	case <-time.After(u.reconnectDelay):
		u.connect(l, plugin)
	case <-plugin.Exited():
	case <-u.life.Done():
	}
}

// disconnect lets no call begin any more. Those in flight go on: the plugin is
// given the time to finish them, and its end ends them.
func (u *upstream) disconnect(why string) {
	u.mu.Lock()
	l := u.link
	u.link, u.why = nil, why
	u.mu.Unlock()
	u.service.Disconnect(why)
	switch {
	case l == nil:
	case l.session == nil:
		l.cancel()
	default:
		u.sessions.Go(func() { _ = l.session.Close() })
	}
}

// refresh reads all lists anew and shows them. After a failure what was shown
// stays: calls say what is wrong.
func (u *upstream) refresh(l *link) {
	u.mu.Lock()
	session := l.session
	if u.link != l {
		session = nil
	}
	u.mu.Unlock()
	if session == nil {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, listTimeout)
	defer cancel()
	f, err := list(ctx, session)
	if err != nil {
		u.log.Warn("cannot read what the plugin has", "error", err)
		return
	}
	u.showAll(f)
}

func (u *upstream) callTool(name string) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		l, session, err := u.current()
		if err != nil {
			return nil, err
		}
		params := &mcp.CallToolParams{
			Meta:           traced(passedOn(req.Params.Meta), req.Extra),
			Name:           name,
			InputResponses: req.Params.InputResponses,
			RequestState:   req.Params.RequestState,
		}
		if len(req.Params.Arguments) > 0 {
			params.Arguments = req.Params.Arguments
		}
		if token := req.Params.GetProgressToken(); token != nil {
			ours, done := l.progress.begin(ctx, req.Session, token)
			defer done()
			params.SetProgressToken(ours)
		}
		result, err := session.CallTool(ctx, params)
		if err != nil {
			return nil, u.explain(ctx, err)
		}
		return result, nil
	}
}

func (u *upstream) getPrompt(name string) mcp.PromptHandler {
	return func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		_, session, err := u.current()
		if err != nil {
			return nil, err
		}
		result, err := session.GetPrompt(ctx, &mcp.GetPromptParams{
			Meta:      traced(passedOn(req.Params.Meta), req.Extra),
			Name:      name,
			Arguments: req.Params.Arguments,
		})
		if err != nil {
			return nil, u.explain(ctx, err)
		}
		return result, nil
	}
}

func (u *upstream) readResource(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	_, session, err := u.current()
	if err != nil {
		return nil, err
	}
	result, err := session.ReadResource(ctx, &mcp.ReadResourceParams{
		Meta: traced(passedOn(req.Params.Meta), req.Extra),
		URI:  req.Params.URI,
	})
	if err != nil {
		return nil, u.explain(ctx, err)
	}
	return result, nil
}

// current is the open session with the plugin, or an error that says why there
// is none.
func (u *upstream) current() (*link, *mcp.ClientSession, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.link == nil || u.link.session == nil {
		return nil, nil, &jsonrpc.Error{Code: codeUnavailable, Message: fmt.Sprintf("service %s cannot be called: %s", u.name, u.why)}
	}
	return u.link, u.link.session, nil
}

// explain keeps the plugin's own errors as they are, and says of a call that
// lost its plugin that it did.
func (u *upstream) explain(ctx context.Context, err error) error {
	var wire *jsonrpc.Error
	switch {
	case errors.As(err, &wire):
		return wire
	case ctx.Err() != nil:
		return err
	case errors.Is(err, mcp.ErrConnectionClosed):
		// The session ended before the call was sent.
		return &jsonrpc.Error{Code: codeUnavailable, Message: fmt.Sprintf("service %s cannot be called: it is ending", u.name)}
	default:
		return &jsonrpc.Error{
			Code:    codeUnavailable,
			Message: fmt.Sprintf("service %s ended during the call, which is not repeated: it may have been carried out", u.name),
		}
	}
}

// passedOn is a request's _meta without what belongs to one hop: the progress
// token, and what the protocol itself keeps there.
func passedOn(meta mcp.Meta) mcp.Meta {
	passed := maps.Clone(meta)
	maps.DeleteFunc(passed, func(key string, _ any) bool {
		return key == "progressToken" || strings.HasPrefix(key, "io.modelcontextprotocol/")
	})
	return passed
}
