// Package agentplugin serves an A2A agent, written with the official Go SDK,
// as a plughost plugin:
//
//	func main() {
//		card := &a2a.AgentCard{Name: "assistant", Version: "1.0.0"}
//		agentplugin.Serve(card, &assistant{})
//	}
//
// The host gives the agent the MCP tools that its configuration grants; the
// executor reaches them by Tools.
package agentplugin

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"google.golang.org/grpc"

	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/a2ahttp"
	"github.com/plughost/plughost/shared/pluginconfig"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// Serve serves the agent until the host ends the plugin or is gone. The card's
// interfaces are set by the host and may be left empty. It logs to standard
// error, in the JSON lines that the host takes apart; the executor can do the
// same with slog.NewJSONHandler(os.Stderr, nil).
//
// Run by hand, it says how to host the plugin and exits with status 1, as it
// does, with the reason on standard error, when the agent cannot be served.
func Serve(card *a2a.AgentCard, executor a2asrv.AgentExecutor, opts ...Option) {
	if !shared.Hosted() && !shared.Debugged() {
		fmt.Fprint(os.Stderr, howToHost(os.Args[0]))
		os.Exit(1)
	}
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	if err := serve(card, executor, o); err != nil {
		fmt.Fprintf(os.Stderr, "[ERROR] cannot serve the agent: %v\n", err)
		os.Exit(1)
	}
}

func serve(card *a2a.AgentCard, executor a2asrv.AgentExecutor, o options) error {
	config, err := pluginconfig.New(o.config)
	if err != nil {
		return err
	}
	cardJSON, err := json.Marshal(card)
	if err != nil {
		return fmt.Errorf("the agent card cannot be encoded: %w", err)
	}
	work := &shared.Work{}
	tools := newTools()
	handler := newHandler(&hosted{executor: executor, work: work, tools: tools}, o.handler)

	shared.Serve(shared.Plugin{
		Describe: &plughostv1.DescribeResponse{
			Kind:      plughostv1.Kind_KIND_AGENT,
			Name:      card.Name,
			Version:   card.Version,
			AgentCard: cardJSON,
		},
		Options: []grpc.ServerOption{grpc.StatsHandler(&counter{work: work})},
		Register: func(s *grpc.Server) {
			a2agrpc.NewHandler(handler).RegisterWith(s)
			plughostv1.RegisterHostServer(s, tools)
		},
		HTTP: func(baseURL string) (http.Handler, error) {
			return withoutCaller(a2ahttp.Handler(handler, func(*http.Request) (*a2a.AgentCard, error) {
				return a2ahttp.Readdress(card, baseURL), nil
			})), nil
		},
		Work:   work,
		Config: config,
		Health: o.health,
	})
	return nil
}

// newHandler makes the agent's handler. Its log is of use to the host; the
// author's options come later, so that a logger or a store of their own
// replaces ours.
func newHandler(executor a2asrv.AgentExecutor, opts []a2asrv.RequestHandlerOption) a2asrv.RequestHandler {
	return a2asrv.NewHandler(executor, append([]a2asrv.RequestHandlerOption{
		a2asrv.WithLogger(slog.New(slog.NewJSONHandler(os.Stderr, nil))),
		a2asrv.WithCallInterceptors(callers{}),
		a2asrv.WithTaskStore(newStore(maxTasks)),
	}, opts...)...)
}

func howToHost(argv0 string) string {
	name := filepath.Base(argv0)
	return fmt.Sprintf(`%[1]s is an A2A agent for plughost. To host it, write in services.hcl:

  service "agent" "NAME" {
    command = [%[2]q]
  }

and run: plughost run --config services.hcl
`, name, argv0)
}
