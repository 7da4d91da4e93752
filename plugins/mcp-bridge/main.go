// Command mcp-bridge is the plughost plugin that hosts MCP servers which are no
// plugins: any command that speaks MCP on standard input and output, and remote
// servers. The host starts it for services with exec or url.
//
// A process is started, watched and ended by process.go. mux.go has one process
// serve all sessions, and isolated.go gives each session its own. remote.go
// speaks with servers elsewhere. Messages pass as they are: only their envelopes
// are read.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"runtime"
	"time"

	"google.golang.org/grpc"

	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/bridge"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// lastStop bounds the end of what is left when the plugin ends.
const lastStop = 10 * time.Second

func main() {
	if !shared.Hosted() {
		fmt.Fprintln(os.Stderr, "mcp-bridge hosts MCP servers for plughost: declare a service with exec or url, and plughost run starts it.")
		os.Exit(2)
	}
	if os.Getenv("GOMAXPROCS") == "" {
		// To pass messages on takes no more. With an idle processor beside it the
		// runtime wakes threads that find nothing to do.
		runtime.GOMAXPROCS(1)
	}
	// go-plugin puts another file in the place of os.Stderr.
	logger := log.New(os.Stderr, "", 0)
	target, err := bridge.Take()
	if err != nil {
		logger.Printf("[ERROR] %v", err)
		os.Exit(1)
	}
	work := &shared.Work{}
	backend := newBackend(target, work, logger)
	shared.Serve(shared.Plugin{
		Describe: &plughostv1.DescribeResponse{
			Kind:    plughostv1.Kind_KIND_MCP,
			Name:    bridge.Name,
			Version: shared.MainVersion(),
		},
		Register: func(s *grpc.Server) {
			plughostv1.RegisterMCPServer(s, &sessions{backend: backend, work: work})
		},
		Work:    work,
		Backend: backend,
	})
	ctx, cancel := context.WithTimeout(context.Background(), lastStop)
	defer cancel()
	backend.Stop(ctx)
}

// backend is a way to serve sessions.
type backend interface {
	shared.Backend
	// open begins the session of a client.
	open(c *client) (upstream, error)
}

func newBackend(target bridge.Target, work *shared.Work, logger *log.Logger) backend {
	if target.URL != "" {
		return newRemote(target, logger)
	}
	start := launcher{target: target, stderr: logger.Writer(), log: logger, spawn: newSpawner()}
	if target.Isolated {
		return newIsolated(start, logger)
	}
	return newMux(start, work, logger)
}
