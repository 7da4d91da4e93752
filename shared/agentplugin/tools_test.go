package agentplugin

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/plughost/plughost/shared/calldepth"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
	"github.com/plughost/plughost/shared/tunnel"
)

// in is a context as an executor has it.
func in(ctx context.Context, t *tools) context.Context {
	return (&hosted{tools: t}).provide(ctx, nil)
}

func TestToolsOutsideOfAnExecutor(t *testing.T) {
	if _, err := Tools(t.Context()); !errors.Is(err, ErrNoHost) {
		t.Errorf("error %v, want ErrNoHost", err)
	}
}

func TestToolsWaitsForTheHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newTools()
		want := &mcp.ClientSession{}
		var waiting sync.WaitGroup
		for range 10 {
			waiting.Go(func() {
				if got, err := Tools(in(t.Context(), host)); got != want || err != nil {
					t.Errorf("session %p, error %v; want %p", got, err, want)
				}
			})
		}
		time.Sleep(openTimeout - time.Second) // in the bubble's time
		host.set(want)
		waiting.Wait()
	})
}

func TestToolsGivesUp(t *testing.T) {
	tests := []struct {
		name  string
		bound time.Duration
		want  error
		not   error
	}{
		{"when the context ends", time.Second, context.DeadlineExceeded, ErrNoTools},
		{"when the host does not open the session", time.Hour, ErrNoTools, context.DeadlineExceeded},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.bound)
				defer cancel()
				_, err := Tools(in(ctx, newTools()))
				if !errors.Is(err, test.want) || errors.Is(err, test.not) {
					t.Errorf("error %v, want %v", err, test.want)
				}
			})
		})
	}
}

func TestNewestSessionWins(t *testing.T) {
	host := newTools()
	older, newer := &mcp.ClientSession{}, &mcp.ClientSession{}
	host.set(older)
	host.set(newer)
	host.unset(older) // the old one ends after the new one began
	if got, err := Tools(in(t.Context(), host)); got != newer || err != nil {
		t.Errorf("session %p, error %v; want %p", got, err, newer)
	}
}

// hostStream is the host's end of the stream of tools: an MCP server with one
// tool, which says which host it is.
func hostStream(t *testing.T, conn *grpc.ClientConn, name string) (end context.CancelFunc) {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: name}, nil)
	server.AddTool(&mcp.Tool{Name: "who", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: name}}}, nil
		})
	return serveTools(t, conn, server)
}

// serveTools serves the host's end of the stream.
func serveTools(t *testing.T, conn *grpc.ClientConn, server *mcp.Server) (end context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := plughostv1.NewHostClient(conn).Tools(ctx)
	if err != nil {
		t.Fatal(err)
	}
	session, err := server.Connect(ctx, tunnel.Transport(stream, cancel), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = session.Wait()
	})
	return cancel
}

// ask asks which host is behind the tools.
func ask(ctx context.Context, t *testing.T) string {
	t.Helper()
	session, err := Tools(ctx)
	if err != nil {
		t.Fatal(err)
	}
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "who"})
	if err != nil {
		return err.Error() // of a session that is just ending
	}
	return result.Content[0].(*mcp.TextContent).Text
}

func TestToolsFollowAHostThatReconnects(t *testing.T) {
	agent := newTools()
	conn := serveGRPC(t, func(s *grpc.Server) { plughostv1.RegisterHostServer(s, agent) })
	ctx, cancel := context.WithTimeout(in(t.Context(), agent), time.Minute)
	defer cancel()

	endFirst := hostStream(t, conn, "first")
	if got := ask(ctx, t); got != "first" {
		t.Fatalf("the host is %q", got)
	}
	endFirst()
	hostStream(t, conn, "second")
	for ask(ctx, t) != "second" && ctx.Err() == nil {
	}
	hostStream(t, conn, "third") // while the second is open
	for ask(ctx, t) != "third" && ctx.Err() == nil {
	}
	if err := ctx.Err(); err != nil {
		t.Error(err)
	}
}

// serveGRPC serves on a Unix socket, and returns a connection to it.
func serveGRPC(t *testing.T, register func(*grpc.Server), opts ...grpc.ServerOption) *grpc.ClientConn {
	t.Helper()
	server := grpc.NewServer(opts...)
	register(server)
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		serving.Wait()
	})
	return conn
}

func TestCallsCarryTheDepthOfTheirRequest(t *testing.T) {
	agent := newTools()
	conn := serveGRPC(t, func(s *grpc.Server) { plughostv1.RegisterHostServer(s, agent) })
	depths := make(chan any, 1)
	server := mcp.NewServer(&mcp.Implementation{Name: "host"}, nil)
	server.AddTool(&mcp.Tool{Name: "t", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			depths <- request.Params.Meta[calldepth.Key]
			return &mcp.CallToolResult{}, nil
		})
	serveTools(t, conn, server)
	for _, test := range []struct {
		name    string
		execCtx *a2asrv.ExecutorContext
		want    any
	}{
		{"none", &a2asrv.ExecutorContext{Message: &a2a.Message{}}, nil},
		{"of the request", &a2asrv.ExecutorContext{Metadata: map[string]any{calldepth.Key: 2.0}}, 2.0},
		{"of the message", &a2asrv.ExecutorContext{Message: &a2a.Message{Metadata: map[string]any{calldepth.Key: 3.0}}}, 3.0},
		{"one that is wrong", &a2asrv.ExecutorContext{Metadata: map[string]any{calldepth.Key: "deep"}}, float64(calldepth.Max)},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx := (&hosted{tools: agent}).provide(t.Context(), test.execCtx)
			session, err := Tools(ctx)
			if err != nil {
				t.Fatal(err)
			}
			params := &mcp.CallToolParams{Name: "t"}
			if _, err := session.CallTool(ctx, params); err != nil {
				t.Fatal(err)
			}
			if got := <-depths; got != test.want {
				t.Errorf("depth %v, want %v", got, test.want)
			}
		})
	}
}
