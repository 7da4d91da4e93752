package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"net"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"github.com/hashicorp/go-hclog"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/supervise"
	"github.com/plughost/plughost/probes"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
	"github.com/plughost/plughost/shared/tunnel"
)

type frames = grpc.BidiStreamingServer[plughostv1.Frame, plughostv1.Frame]

// fakeInstance is an instance of a service whose plugin is in this process,
// behind a real gRPC connection.
type fakeInstance struct {
	conn     *grpc.ClientConn
	server   *grpc.Server
	describe *plughostv1.DescribeResponse
	exited   chan struct{}
	once     sync.Once
	serving  sync.WaitGroup
}

func (f *fakeInstance) ID() string                             { return "instance" }
func (f *fakeInstance) PID() int                               { return 1 }
func (f *fakeInstance) Conn() *grpc.ClientConn                 { return f.conn }
func (f *fakeInstance) Describe() *plughostv1.DescribeResponse { return f.describe }
func (f *fakeInstance) Exited() <-chan struct{}                { return f.exited }
func (f *fakeInstance) ExitError() error                       { return nil }

func (*fakeInstance) Health(context.Context) error { return nil }

func (f *fakeInstance) die() { f.once.Do(func() { f.server.Stop(); close(f.exited) }) }

func (f *fakeInstance) Stop(context.Context, time.Duration) (probes.Result, error) {
	return probes.Result{}, nil
}

func newInstance(t *testing.T, register func(*grpc.Server), opts ...grpc.ServerOption) *fakeInstance {
	t.Helper()
	f := &fakeInstance{
		server:   grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(math.MaxInt32))...),
		describe: &plughostv1.DescribeResponse{},
		exited:   make(chan struct{}),
	}
	register(f.server)
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	f.serving.Go(func() { _ = f.server.Serve(listener) })
	f.conn, err = grpc.NewClient("unix:"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = f.conn.Close()
		f.die()
		f.serving.Wait()
	})
	return f
}

// mcpService serves the MCP service of the protocol by a function.
type mcpService struct {
	plughostv1.UnimplementedMCPServer
	session func(frames) error
}

func (s *mcpService) Session(stream frames) error { return s.session(stream) }

// newRawPlugin makes an MCP plugin that handles its frames itself.
func newRawPlugin(t *testing.T, session func(frames) error) *fakeInstance {
	t.Helper()
	return newInstance(t, func(s *grpc.Server) {
		plughostv1.RegisterMCPServer(s, &mcpService{session: session})
	})
}

// newPlugin makes an MCP plugin of a server.
func newPlugin(t *testing.T, server *mcp.Server) *fakeInstance {
	t.Helper()
	server.AddReceivingMiddleware(tunnel.Related)
	return newRawPlugin(t, func(stream frames) error {
		ctx, cancel := context.WithCancel(stream.Context())
		defer cancel()
		if _, err := server.Connect(ctx, tunnel.Transport(stream, cancel), nil); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
}

// fakeAgent is an agent plugin; tools gets each session that the host gives it.
type fakeAgent struct {
	plughostv1.UnimplementedHostServer
	*fakeInstance
	options *mcp.ClientOptions
	tools   chan *mcp.ClientSession
}

func (f *fakeAgent) Tools(stream frames) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "agent"}, f.options)
	session, err := client.Connect(ctx, tunnel.Transport(stream, cancel), nil)
	if err != nil {
		return err
	}
	f.tools <- session
	<-ctx.Done()
	return nil
}

func newFakeAgent(t *testing.T, card *a2a.AgentCard, executor a2asrv.AgentExecutor, opts ...a2asrv.RequestHandlerOption) *fakeAgent {
	t.Helper()
	f := &fakeAgent{tools: make(chan *mcp.ClientSession, 10)}
	someone := func(context.Context) (string, error) { return "someone", nil }
	store := taskstore.NewInMemory(&taskstore.InMemoryStoreConfig{Authenticator: someone})
	opts = append([]a2asrv.RequestHandlerOption{a2asrv.WithTaskStore(store), a2asrv.WithLogger(slog.New(slog.DiscardHandler))}, opts...)
	f.fakeInstance = newInstance(t, func(s *grpc.Server) {
		a2agrpc.NewHandler(a2asrv.NewHandler(executor, opts...)).RegisterWith(s)
		plughostv1.RegisterHostServer(s, f)
	})
	encoded, err := json.Marshal(card)
	if err != nil {
		t.Fatal(err)
	}
	f.describe.AgentCard = encoded
	return f
}

// newServer makes an MCP server with tools that answer with their names.
func newServer(tools ...string) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "plugin"}, nil)
	for _, name := range tools {
		addTool(server, name, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text(name), nil
		})
	}
	return server
}

func addTool(server *mcp.Server, name string, handler mcp.ToolHandler) {
	server.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, handler)
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// front is a gateway with its HTTP server, and the test its supervisor.
type front struct {
	*Gateway
	t   *testing.T
	url string
}

func mcpConfig(name string) config.Service {
	return config.Service{Kind: config.KindMCP, Name: name, Tools: config.Tools{Allow: []string{"*"}}}
}

func agentConfig(name string, grants ...string) config.Service {
	return config.Service{Kind: config.KindAgent, Name: name, Tools: config.Tools{Allow: grants}}
}

func newFront(t *testing.T, services ...config.Service) *front {
	t.Helper()
	return newLimitedFront(t, config.GatewayLimits{}, services...)
}

// newLimitedFront makes a front whose clients have limits.
func newLimitedFront(t *testing.T, limits config.GatewayLimits, services ...config.Service) *front {
	t.Helper()
	g, err := New(services, limits, func() bool { return true }, "test", hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	g.common.reconnectDelay = 10 * time.Millisecond
	web := httptest.NewServer(g.Handler())
	t.Cleanup(web.Close)
	t.Cleanup(g.Close)
	return &front{Gateway: g, t: t, url: web.URL}
}

func (f *front) change(kind config.Kind, name string, status supervise.Status, running supervise.Instance) {
	status.Service = config.Ref{Kind: kind, Name: name}
	f.Watch(supervise.Change{Status: status, Running: running})
}

// ready has a service be ready, as one is: when the gateway shows what it has.
func (f *front) ready(name string, instance *fakeInstance) {
	f.t.Helper()
	if err := f.Introduce(f.t.Context(), config.Ref{Kind: config.KindMCP, Name: name}, instance); err != nil {
		f.t.Fatal(err)
	}
	f.change(config.KindMCP, name, supervise.Status{State: supervise.Ready}, instance)
}

func (f *front) readyAgent(name string, agent *fakeAgent) {
	f.change(config.KindAgent, name, supervise.Status{State: supervise.Ready}, agent)
}

// enter has an MCP service be in another state.
func (f *front) enter(name string, state supervise.State, cause string) {
	f.change(config.KindMCP, name, supervise.Status{State: state, Cause: cause, LastError: cause}, nil)
}

func (f *front) enterAgent(name string, state supervise.State, cause string) {
	f.change(config.KindAgent, name, supervise.Status{State: state, Cause: cause, LastError: cause}, nil)
}

// connect opens a session with one of the MCP endpoints.
func (f *front) connect(path, version string, opts *mcp.ClientOptions) *mcp.ClientSession {
	f.t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "client"}, opts)
	session, err := client.Connect(f.t.Context(), &mcp.StreamableClientTransport{Endpoint: f.url + path},
		&mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = session.Close() })
	return session
}

const (
	legacy = "2025-11-25"
	modern = "2026-07-28"
)

var versions = []string{"2025-06-18", legacy, modern}

func call(ctx context.Context, session *mcp.ClientSession, tool string) (string, error) {
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool})
	if err != nil {
		return "", err
	}
	return result.Content[0].(*mcp.TextContent).Text, nil
}

func toolNames(t *testing.T, session *mcp.ClientSession) []string {
	t.Helper()
	var names []string
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	return names
}

func expect(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// eventually waits for what comes by itself.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not in time: %s", what)
		}
	}
}

// noGoroutineStays fails a test that leaves more goroutines than it found.
// Call it before anything else: cleanups run last in, first out.
func noGoroutineStays(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		deadline := time.After(10 * time.Second)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for runtime.NumGoroutine() > before {
			select {
			case <-tick.C:
			case <-deadline:
				stacks := make([]byte, 1<<20)
				t.Errorf("%d goroutines, and %d before the test:\n%s", runtime.NumGoroutine(), before,
					stacks[:runtime.Stack(stacks, true)])
				return
			}
		}
	})
}
