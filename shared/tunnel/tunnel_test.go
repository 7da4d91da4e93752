package tunnel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
	"github.com/plughost/plughost/shared/tunnel"
)

// window is how many bytes may be on the way to a peer that does not read.
const window = 64 << 10

// peer is the plugin's end: a gRPC server on a Unix socket that hands each
// stream to a function.
type peer struct {
	plughostv1.UnimplementedMCPServer
	session func(grpc.BidiStreamingServer[plughostv1.Frame, plughostv1.Frame]) error
	server  *grpc.Server
	conn    *grpc.ClientConn
}

func (p *peer) Session(stream grpc.BidiStreamingServer[plughostv1.Frame, plughostv1.Frame]) error {
	return p.session(stream)
}

func newPeer(t *testing.T, session func(grpc.BidiStreamingServer[plughostv1.Frame, plughostv1.Frame]) error) *peer {
	t.Helper()
	noGoroutineStays(t)
	p := &peer{session: session, server: grpc.NewServer(grpc.MaxRecvMsgSize(math.MaxInt32), grpc.StaticStreamWindowSize(window))}
	plughostv1.RegisterMCPServer(p.server, p)
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = p.server.Serve(listener) })
	p.conn, err = grpc.NewClient("unix:"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.conn.Close()
		p.server.Stop()
		serving.Wait()
	})
	return p
}

// serve makes a peer that is an MCP server.
func serve(t *testing.T, server *mcp.Server) *peer {
	t.Helper()
	return newPeer(t, func(stream grpc.BidiStreamingServer[plughostv1.Frame, plughostv1.Frame]) error {
		ctx, cancel := context.WithCancel(stream.Context())
		defer cancel()
		if _, err := server.Connect(ctx, tunnel.Transport(stream, cancel), nil); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
}

// open opens a stream to the peer.
func (p *peer) open(t *testing.T) (tunnel.Stream, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	stream, err := plughostv1.NewMCPClient(p.conn).Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return stream, cancel
}

// connect opens an MCP session with the peer.
func (p *peer) connect(t *testing.T, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	stream, cancel := p.open(t)
	client := mcp.NewClient(&mcp.Implementation{Name: "test"}, opts)
	session, err := client.Connect(t.Context(), tunnel.Transport(stream, cancel), &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
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

func newServer() *mcp.Server {
	return mcp.NewServer(&mcp.Implementation{Name: "peer"}, nil)
}

func tool(server *mcp.Server, name string, handler mcp.ToolHandler) {
	server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, handler)
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func textOf(t *testing.T, result *mcp.CallToolResult) string {
	t.Helper()
	if len(result.Content) != 1 {
		t.Fatalf("%d parts of content, want 1", len(result.Content))
	}
	return result.Content[0].(*mcp.TextContent).Text
}

// echo answers with its argument "text".
func echo(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var args struct{ Text string }
	if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
		return nil, err
	}
	return text(args.Text), nil
}

func TestProgressComesBeforeTheAnswer(t *testing.T) {
	server := newServer()
	tool(server, "count", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := range 3 {
			err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: req.Params.GetProgressToken(), Progress: float64(i + 1), Total: 3,
			})
			if err != nil {
				return nil, err
			}
		}
		return text("done"), nil
	})
	progress := make(chan float64, 3)
	session := serve(t, server).connect(t, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			if req.Params.ProgressToken != "token" {
				t.Errorf("token %v", req.Params.ProgressToken)
			}
			progress <- req.Params.Progress
		},
	})
	params := &mcp.CallToolParams{Name: "count"}
	params.SetProgressToken("token")
	result, err := session.CallTool(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if got := textOf(t, result); got != "done" {
		t.Errorf("result %q", got)
	}
	for want := 1.0; want <= 3; want++ {
		if got := <-progress; got != want {
			t.Errorf("progress %v, want %v", got, want)
		}
	}
}

func TestCancellationReachesTheTool(t *testing.T) {
	server := newServer()
	started, canceled := make(chan struct{}), make(chan struct{})
	tool(server, "hang", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		close(started)
		<-ctx.Done()
		close(canceled)
		return nil, ctx.Err()
	})
	session := serve(t, server).connect(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-started
		cancel()
	}()
	if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "hang"}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want canceled", err)
	}
	<-canceled
}

func TestListChangedComesByItself(t *testing.T) {
	server := newServer()
	tool(server, "one", echo)
	changed := make(chan struct{}, 1)
	session := serve(t, server).connect(t, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
	})
	tool(server, "two", echo)
	<-changed
	result, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Tools) != 2 {
		t.Errorf("%d tools, want 2", len(result.Tools))
	}
}

func TestServerAsksItsClient(t *testing.T) {
	server := newServer()
	tool(server, "ask", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{
			Message:         "who?",
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`),
		})
		if err != nil {
			return nil, err
		}
		sample, err := req.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 1})
		if err != nil {
			return nil, err
		}
		return text(fmt.Sprint(answer.Content["name"], " ", sample.Model)), nil
	})
	session := serve(t, server).connect(t, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Model: "m", Role: "assistant", Content: &mcp.TextContent{Text: "x"}}, nil
		},
	})
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask"})
	if err != nil {
		t.Fatal(err)
	}
	if got := textOf(t, result); got != "Ada m" {
		t.Errorf("result %q", got)
	}
}

func TestFiveMegabytesBothWays(t *testing.T) {
	server := newServer()
	tool(server, "echo", echo)
	session := serve(t, server).connect(t, nil)
	want := strings.Repeat("0123456789", 5<<20/10)
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": want}})
	if err != nil {
		t.Fatal(err)
	}
	if got := textOf(t, result); got != want {
		t.Errorf("%d bytes came back of %d", len(got), len(want))
	}
}

func TestManyConcurrentCallsGetTheirOwnAnswers(t *testing.T) {
	server := newServer()
	tool(server, "echo", echo)
	session := serve(t, server).connect(t, nil)
	var calls sync.WaitGroup
	for i := range 100 {
		calls.Go(func() {
			want := fmt.Sprint("call ", i)
			result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": want}})
			if err != nil {
				t.Error(err)
				return
			}
			if got := textOf(t, result); got != want {
				t.Errorf("%q came back of %q", got, want)
			}
		})
	}
	calls.Wait()
}

// hang is a peer that reads until its client ends the stream, and says
// nothing.
func hang(stream grpc.BidiStreamingServer[plughostv1.Frame, plughostv1.Frame]) error {
	<-stream.Context().Done()
	return nil
}

// raw connects the transport of a stream to the peer, without a session.
func (p *peer) raw(t *testing.T) mcp.Connection {
	t.Helper()
	stream, cancel := p.open(t)
	connection, err := tunnel.Transport(stream, cancel).Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

func TestCloseEndsARead(t *testing.T) {
	connection := newPeer(t, hang).raw(t)
	read := make(chan error)
	go func() {
		_, err := connection.Read(context.Background())
		read <- err
	}()
	for range 2 { // it may be called more than once
		if err := connection.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := <-read; !errors.Is(err, io.EOF) {
		t.Errorf("error %v, want EOF", err)
	}
	if err := connection.Write(t.Context(), &jsonrpc.Request{Method: "late"}); !errors.Is(err, mcp.ErrConnectionClosed) {
		t.Errorf("error of a late write %v, want closed", err)
	}
}

// sends tells of each Send that begins.
type sends struct {
	tunnel.Stream
	begun chan struct{}
}

func (s *sends) Send(frame *plughostv1.Frame) error {
	s.begun <- struct{}{}
	return s.Stream.Send(frame)
}

// fill connects to a peer that does not read, writes what that has room for, and
// has a second write be held up.
func fill(t *testing.T) (connection mcp.Connection, cancel context.CancelFunc, held <-chan error) {
	t.Helper()
	stream, cancelStream := newPeer(t, hang).open(t)
	counted := &sends{stream, make(chan struct{}, 3)}
	connection, err := tunnel.Transport(counted, cancelStream).Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	params, err := json.Marshal(strings.Repeat("x", 4*window))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	flood := &jsonrpc.Request{Method: "flood", Params: params}
	if err := connection.Write(ctx, flood); err != nil {
		t.Fatal(err)
	}
	<-counted.begun
	result := make(chan error, 1)
	go func() { result <- connection.Write(ctx, flood) }()
	<-counted.begun
	return connection, cancel, result
}

func TestContextEndsAWriteThatThePeerHoldsUp(t *testing.T) {
	connection, cancel, held := fill(t)
	waiting := make(chan error, 1)
	ctx, cancelSecond := context.WithCancel(t.Context())
	go func() { waiting <- connection.Write(ctx, &jsonrpc.Request{Method: "second"}) }()
	cancel()
	if err := <-held; !errors.Is(err, context.Canceled) {
		t.Errorf("error of the write that is held up %v, want canceled", err)
	}
	cancelSecond()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("error of the write behind it %v, want canceled", err)
	}
}

func TestCloseEndsAWriteThatThePeerHoldsUp(t *testing.T) {
	connection, cancel, held := fill(t)
	defer cancel()
	if err := connection.Close(); err != nil {
		t.Error(err)
	}
	if err := <-held; !errors.Is(err, mcp.ErrConnectionClosed) {
		t.Errorf("error %v, want closed", err)
	}
}

func TestReadTellsHowTheStreamEnded(t *testing.T) {
	tests := []struct {
		name string
		end  func(*peer, grpc.BidiStreamingServer[plughostv1.Frame, plughostv1.Frame]) error
		want func(error) bool
	}{
		{
			"an orderly end is the end of file",
			func(*peer, grpc.BidiStreamingServer[plughostv1.Frame, plughostv1.Frame]) error { return nil },
			func(err error) bool { return errors.Is(err, io.EOF) },
		},
		{
			"the peer's error is passed on",
			func(*peer, grpc.BidiStreamingServer[plughostv1.Frame, plughostv1.Frame]) error {
				return status.Error(codes.Internal, "broken")
			},
			func(err error) bool { return status.Code(err) == codes.Internal },
		},
		{
			"the peer's death is unavailable",
			func(p *peer, stream grpc.BidiStreamingServer[plughostv1.Frame, plughostv1.Frame]) error {
				go p.server.Stop()
				<-stream.Context().Done()
				return nil
			},
			func(err error) bool { return status.Code(err) == codes.Unavailable },
		},
		{
			"a frame that is no message is an error that says so",
			func(_ *peer, stream grpc.BidiStreamingServer[plughostv1.Frame, plughostv1.Frame]) error {
				return stream.Send(&plughostv1.Frame{Message: []byte("junk")})
			},
			func(err error) bool {
				return err != nil && strings.Contains(err.Error(), "cannot decode a frame of 4 bytes")
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var p *peer
			p = newPeer(t, func(stream grpc.BidiStreamingServer[plughostv1.Frame, plughostv1.Frame]) error {
				return test.end(p, stream)
			})
			if _, err := p.raw(t).Read(t.Context()); !test.want(err) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestPeersDeathEndsTheSessionAndItsCalls(t *testing.T) {
	server := newServer()
	started := make(chan struct{})
	tool(server, "hang", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	p := serve(t, server)
	session := p.connect(t, nil)
	go func() {
		<-started
		p.server.Stop()
	}()
	_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "hang"})
	if status.Code(errors.Unwrap(err)) != codes.Unavailable {
		t.Errorf("error of the call %v, want unavailable", err)
	}
	if err := session.Wait(); status.Code(err) != codes.Unavailable {
		t.Errorf("error of the session %v, want unavailable", err)
	}
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "hang"}); !errors.Is(err, mcp.ErrConnectionClosed) {
		t.Errorf("error of a later call %v, want closed", err)
	}
}

func TestClientsEndEndsTheServersSession(t *testing.T) {
	server := newServer()
	ended := make(chan error, 1)
	p := newPeer(t, func(stream grpc.BidiStreamingServer[plughostv1.Frame, plughostv1.Frame]) error {
		ctx, cancel := context.WithCancel(stream.Context())
		defer cancel()
		session, err := server.Connect(ctx, tunnel.Transport(stream, cancel), nil)
		if err != nil {
			return err
		}
		ended <- session.Wait()
		return nil
	})
	if err := p.connect(t, nil).Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("error %v, want none", err)
	}
}
