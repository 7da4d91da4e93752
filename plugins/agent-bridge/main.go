// Command agent-bridge is the plughost plugin that has a remote A2A agent be a
// service of the host. The host starts it for agents with url.
//
// remote.go finds the agent by its card and watches it, transport.go speaks with
// it, and forward.go passes requests on.
package main

import (
	"fmt"
	"log"
	"os"

	"github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"google.golang.org/grpc"

	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/bridge"
)

func main() {
	if !shared.Hosted() {
		fmt.Fprintln(os.Stderr, "agent-bridge has plughost serve remote agents: declare an agent with url, and plughost run starts it.")
		os.Exit(2)
	}
	// go-plugin puts another file in the place of os.Stderr.
	logger := log.New(os.Stderr, "", 0)
	target, err := bridge.Take()
	if err != nil {
		logger.Printf("[ERROR] %v", err)
		os.Exit(1)
	}
	remote, err := newRemote(target.URL, target.Headers, logger)
	if err != nil {
		logger.Printf("[ERROR] %v", err)
		os.Exit(1)
	}
	shared.Serve(shared.Plugin{
		Describe: remote.describe,
		Register: func(s *grpc.Server) { a2agrpc.NewHandler(&forward{remote}).RegisterWith(s) },
		Work:     &shared.Work{},
		Backend:  remote,
	})
}
