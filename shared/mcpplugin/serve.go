// Package mcpplugin serves an MCP server of the official Go SDK as a plughost
// plugin:
//
//	func main() {
//		server := mcp.NewServer(&mcp.Implementation{Name: "clock"}, nil)
//		mcp.AddTool(server, &mcp.Tool{Name: "now"}, now)
//		mcpplugin.Serve(server)
//	}
//
// Launched by a host, the binary serves its sessions through the host, and on
// the service's port if it has one. Run by hand it serves MCP on standard
// input and output, so the same binary works in every MCP client.
package mcpplugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"

	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/mcphttp"
	"github.com/plughost/plughost/shared/pluginconfig"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
	"github.com/plughost/plughost/shared/release"
	"github.com/plughost/plughost/shared/tunnel"
)

// Serve serves the MCP server until the host ends the plugin or is gone or,
// run by hand, until standard input ends. The server must not be connected to
// anything else. What goes wrong is written to standard error and ends the
// process with status 1.
func Serve(server *mcp.Server, opts ...Option) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	config, err := pluginconfig.New(o.config)
	if err != nil {
		fmt.Fprintln(os.Stderr, "[ERROR]", err)
		os.Exit(1)
	}
	if !shared.Hosted() && !shared.Debugged() {
		if err := shared.ConfigureByHand(config); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if err := serveStdio(server); err != nil {
			fmt.Fprintf(os.Stderr, "cannot serve MCP on standard input and output: %v\n", err)
			os.Exit(1)
		}
		return
	}
	work := &shared.Work{}
	server.AddReceivingMiddleware(tunnel.Related, count(work))
	shared.Serve(shared.Plugin{
		Describe: &plughostv1.DescribeResponse{
			Kind:    plughostv1.Kind_KIND_MCP,
			Name:    filepath.Base(os.Args[0]),
			Version: shared.MainVersion(),
		},
		Register: func(s *grpc.Server) {
			plughostv1.RegisterMCPServer(s, &sessions{server: server, work: work})
		},
		HTTP: func(string) (http.Handler, error) {
			mux := http.NewServeMux()
			mux.Handle("/mcp", mcphttp.Handler(func(*http.Request) *mcp.Server { return server }, mcphttp.Options{}))
			return mux, nil
		},
		Work:   work,
		Config: config,
		Health: o.health,
	})
}

// serveStdio is the plain MCP server that the binary is without a host.
func serveStdio(server *mcp.Server) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := server.Run(ctx, &mcp.StdioTransport{})
	if errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil
	}
	return err
}

// sessions implements the MCP service of the protocol.
type sessions struct {
	plughostv1.UnimplementedMCPServer
	server   *mcp.Server
	work     *shared.Work
	releaser release.Releaser
}

func (s *sessions) Session(stream grpc.BidiStreamingServer[plughostv1.Frame, plughostv1.Frame]) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer s.releaser.Ended()
	if _, err := s.server.Connect(ctx, &countingTransport{tunnel.Transport(stream, cancel), s.work}, nil); err != nil {
		return fmt.Errorf("cannot start an MCP session: %w", err)
	}
	<-ctx.Done() // by the host, or by the session
	return nil
}
