package mcpplugin

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/shared"
)

// slowTransport holds up each answer until it is let through.
type slowTransport struct {
	mcp.Transport
	through chan struct{}
}

func (t *slowTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	return &slowConnection{c, t.through}, err
}

type slowConnection struct {
	mcp.Connection
	through chan struct{}
}

func (c *slowConnection) Write(ctx context.Context, message jsonrpc.Message) error {
	if _, ok := message.(*jsonrpc.Response); ok {
		<-c.through
	}
	return c.Connection.Write(ctx, message)
}

// newServer makes a server whose one tool returns when told.
func newServer(work *shared.Work) (server *mcp.Server, begun, end chan struct{}) {
	begun, end = make(chan struct{}), make(chan struct{})
	server = mcp.NewServer(&mcp.Implementation{Name: "test"}, nil)
	server.AddTool(&mcp.Tool{Name: "work", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			begun <- struct{}{}
			<-end
			return &mcp.CallToolResult{}, nil
		})
	server.AddReceivingMiddleware(count(work))
	return server, begun, end
}

func TestRequestIsWorkUntilItsAnswerWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := &shared.Work{}
		server, begun, end := newServer(work)
		theirs, ours := mcp.NewInMemoryTransports()
		through := make(chan struct{})
		serverSession, err := server.Connect(t.Context(), &countingTransport{&slowTransport{ours, through}, work}, nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() { through <- struct{}{} }() // the answer to initialize
		session, err := mcp.NewClient(&mcp.Implementation{Name: "client"}, nil).Connect(t.Context(), theirs,
			&mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !work.Idle() {
			t.Error("there is work before the first call")
		}

		answered := make(chan error, 1)
		go func() {
			_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "work"})
			answered <- err
		}()
		<-begun
		drained := make(chan error, 1)
		go func() { drained <- work.Drain(t.Context()) }()
		end <- struct{}{}
		synctest.Wait() // the tool has returned, and its answer is held up
		select {
		case err := <-drained:
			t.Errorf("drained before the answer was sent: %v", err)
		default:
		}
		through <- struct{}{}
		if err := <-answered; err != nil {
			t.Error(err)
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}

		go func() { through <- struct{}{} }()
		_, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "work"})
		var wire *jsonrpc.Error
		if !errors.As(err, &wire) || wire.Code != codeDraining {
			t.Errorf("a call while draining: %v, want it refused", err)
		}
		_ = session.Close()
		_ = serverSession.Wait()
	})
}

func TestWorkEndsWithItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := &shared.Work{}
		server, begun, end := newServer(work)
		theirs, ours := mcp.NewInMemoryTransports()
		serverSession, err := server.Connect(t.Context(), &countingTransport{ours, work}, nil)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := theirs.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		send := func(id any, method, params string) {
			t.Helper()
			request := &jsonrpc.Request{Method: method, Params: json.RawMessage(params)}
			if id != nil {
				if request.ID, err = jsonrpc.MakeID(id); err != nil {
					t.Fatal(err)
				}
			}
			if err := raw.Write(t.Context(), request); err != nil {
				t.Fatal(err)
			}
		}
		send(1.0, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}`)
		if _, err := raw.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		send(nil, "notifications/initialized", `{}`)
		send(2.0, "tools/call", `{"name":"work"}`)
		<-begun
		// The client is gone, and the call is never answered.
		_ = raw.Close()
		end <- struct{}{}
		_ = serverSession.Wait()
		synctest.Wait()
		if !work.Idle() {
			t.Error("a session that ended left work behind")
		}
	})
}

func TestIsWork(t *testing.T) {
	for method, want := range map[string]bool{
		"tools/call": true, "initialize": true, "ping": true, "extension/method": true,
		"notifications/cancelled": false, "subscriptions/listen": false,
	} {
		if got := isWork(method); got != want {
			t.Errorf("%s: %v, want %v", method, got, want)
		}
	}
}
