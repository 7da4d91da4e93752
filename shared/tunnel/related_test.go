package tunnel_test

import (
	"context"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
	"github.com/plughost/plughost/shared/tunnel"
)

func TestMessagesSayWhichRequestTheyBelongTo(t *testing.T) {
	server := newServer()
	server.AddReceivingMiddleware(tunnel.Related)
	tool(server, "work", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		notify := func(ctx context.Context) {
			if err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: "p"}); err != nil {
				t.Error(err)
			}
		}
		notify(ctx)
		notify(context.Background())
		req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: 3 * time.Second})
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: req.Extra.Header.Get("Traceparent")}}}, nil
	})
	stream, err := plughostv1.NewMCPClient(serve(t, server).conn).Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	send := func(message string, header map[string]string) {
		if err := stream.Send(&plughostv1.Frame{Message: []byte(message), Header: header}); err != nil {
			t.Fatal(err)
		}
	}
	receive := func() *plughostv1.Frame {
		frame, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return frame
	}
	send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`, nil)
	receive()
	send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil)
	send(`{"jsonrpc":"2.0","id":41,"method":"tools/call","params":{"name":"work","_meta":{"progressToken":"p"}}}`,
		map[string]string{"Traceparent": "00-1"})
	for _, want := range []int64{41, 0} {
		frame := receive()
		if frame.Request == nil || frame.GetRequest() != want {
			t.Errorf("%s belongs to %v, want %d", frame.GetMessage(), frame.Request, want)
		}
	}
	if frame := receive(); frame.GetRequest() != 41 || frame.GetCloseStream().GetRetryAfter() != 3000 || len(frame.GetMessage()) > 0 {
		t.Errorf("asked to close: %v", frame)
	}
	const want = `{"jsonrpc":"2.0","id":41,"result":{"content":[{"type":"text","text":"00-1"}]}}`
	if frame := receive(); string(frame.GetMessage()) != want {
		t.Errorf("answer %s", frame.GetMessage())
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
}
