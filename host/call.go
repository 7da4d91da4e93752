package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/control"
	"github.com/plughost/plughost/host/internal/logs"
	"github.com/plughost/plughost/host/internal/supervise"
)

func newCallCommand(at *location) *cobra.Command {
	var asJSON bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "call SERVICE [TOOL [ARGUMENTS]]",
		Short: "Call a tool of an MCP service, and print its result",
		Long: `Call a tool of an MCP service, and print its result. ARGUMENTS are one JSON
object, or - to read it from standard input, or any number of NAME=VALUE, whose
types are those that the tool declares. Without TOOL the tools are listed.

Text is printed as it is, structured content as JSON; of images and sound the
size is told. On a terminal progress is shown, and what the tool asks for in the
course of the call is asked there; elsewhere it is declined. Ctrl-C cancels the
call. The exit status is 1 if the tool says that it failed. It takes no token: it
is for who runs the host.`,
		Example: `  plughost call clock
  plughost call clock now zone=Europe/London
  plughost call clock convert '{"time":"2026-07-01T09:30","from":"UTC","to":"Asia/Tokyo"}'
  plughost call --json clock now - < arguments.json`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: at.completeCall,
		RunE: func(cmd *cobra.Command, args []string) error {
			arguments, err := readArguments(args[min(2, len(args)):], cmd.InOrStdin())
			if err != nil {
				return usageError{err}
			}
			client, err := at.client()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			if len(args) == 1 {
				return showTools(ctx, cmd.OutOrStdout(), at, client, args[0], asJSON)
			}
			result, err := call(ctx, client, args[0], args[1], arguments)
			switch {
			case errors.Is(ctx.Err(), context.DeadlineExceeded):
				return fmt.Errorf("%s was cancelled: it took longer than %s", args[1], timeout)
			case ctx.Err() != nil:
				return fmt.Errorf("%s was cancelled", args[1])
			case err != nil:
				return at.explain(err)
			}
			if asJSON {
				err = writeJSON(cmd.OutOrStdout(), result)
			} else {
				err = writeResult(cmd.OutOrStdout(), result)
			}
			if err == nil && result.IsError {
				return fmt.Errorf("%s has failed", args[1])
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the whole result, or the tools, as JSON")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "cancel the call after so long, as in 30s")
	return cmd
}

// arguments are those of a tool: an object, or texts whose types the tool knows.
type arguments struct {
	object json.RawMessage
	texts  map[string]string
}

func readArguments(args []string, stdin io.Reader) (arguments, error) {
	if len(args) == 0 {
		return arguments{}, nil
	}
	if len(args) == 1 && !strings.Contains(strings.SplitN(args[0], "{", 2)[0], "=") {
		text := []byte(args[0])
		if args[0] == "-" {
			var err error
			if text, err = io.ReadAll(stdin); err != nil {
				return arguments{}, err
			}
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(text, &object); err != nil || object == nil {
			return arguments{}, fmt.Errorf(`the arguments must be a JSON object, as in '{"zone":"UTC"}', or NAME=VALUE: %s`, orNull(err))
		}
		return arguments{object: text}, nil
	}
	texts := make(map[string]string)
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return arguments{}, fmt.Errorf("%q is not NAME=VALUE", arg)
		}
		if _, twice := texts[name]; twice {
			return arguments{}, fmt.Errorf("%s is given twice", name)
		}
		texts[name] = value
	}
	return arguments{texts: texts}, nil
}

func orNull(err error) string {
	if err == nil {
		return "it is null"
	}
	return err.Error()
}

// call calls a tool of a service.
func call(ctx context.Context, client *control.Client, service, tool string, args arguments) (*mcp.CallToolResult, error) {
	ref, err := callable(ctx, client, service)
	if err != nil {
		return nil, err
	}
	who := newPerson(os.Stdin, os.Stderr, newProgressLine(os.Stderr))
	defer who.progress.clear()
	session, err := openSession(ctx, client, "/mcp/"+ref.Name, who)
	if err != nil {
		return nil, fmt.Errorf("cannot call service %s: %w", ref, err)
	}
	defer session.Close()
	params := &mcp.CallToolParams{Name: tool, Arguments: args.object}
	if args.object == nil {
		params.Arguments = map[string]any{}
	}
	if args.texts != nil {
		if params.Arguments, err = typed(ctx, session, ref, tool, args.texts); err != nil {
			return nil, err
		}
	}
	params.SetProgressToken("1")
	result, err := session.CallTool(ctx, params)
	for range maxVisits {
		if !who.visit(ctx, err) {
			break
		}
		result, err = session.CallTool(ctx, params)
	}
	var refused *jsonrpc.Error
	switch {
	case err == nil:
		return result, nil
	case !errors.As(err, &refused):
		return nil, fmt.Errorf("cannot call %s of service %s: %w", tool, ref, err)
	}
	if _, findErr := findTool(ctx, session, ref, tool); findErr != nil {
		return nil, findErr
	}
	return nil, fmt.Errorf("%s of service %s: %s", tool, ref, logs.Printable(refused.Message))
}

// callable finds an MCP service that can be called now.
func callable(ctx context.Context, client *control.Client, name string) (config.Ref, error) {
	status, err := client.Status(ctx)
	if err != nil {
		return config.Ref{}, err
	}
	ref, err := find(refsOf(status), name)
	if err != nil {
		return config.Ref{}, err
	}
	if ref.Kind != config.KindMCP {
		return config.Ref{}, fmt.Errorf("%s is an agent, which has no tools: use 'plughost ask'", ref)
	}
	for _, service := range status.Services {
		if service.Service == ref && service.State != supervise.Ready && service.State != supervise.Unhealthy {
			return config.Ref{}, fmt.Errorf("service %s cannot be called: it is %s%s; see 'plughost logs %s'", ref, service.State, reasonOf(service), ref.Name)
		}
	}
	return ref, nil
}

func reasonOf(service control.ServiceStatus) string {
	if service.LastError != "" {
		return ": " + service.LastError
	}
	if service.Cause != "" {
		return ": " + service.Cause
	}
	return ""
}

// maxVisits is how often a tool may have its caller go elsewhere before a call.
const maxVisits = 5

// askingRevision is the last in which tools may ask in the middle of a call;
// those that ask in their results may in it, too.
const askingRevision = "2025-11-25"

// openSession connects to one of the gateway's endpoints over the control socket,
// for somebody who makes calls, or for nobody, to look around.
func openSession(ctx context.Context, client *control.Client, path string, who *person) (*mcp.ClientSession, error) {
	http, base := client.Gateway()
	options, revision := &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}}, ""
	if who != nil {
		revision = askingRevision
		options.Capabilities.Elicitation = &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}}
		options.ElicitationHandler = func(asked context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked, cancel := context.WithCancel(asked)
			defer cancel()
			defer context.AfterFunc(ctx, cancel)() // the call is given up
			return who.elicit(asked, r)
		}
		options.ProgressNotificationHandler = func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			who.progress.show(r.Params)
		}
	}
	return mcp.NewClient(&mcp.Implementation{Name: "plughost", Version: version()}, options).Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: base + path, HTTPClient: http, DisableStandaloneSSE: true, MaxEventSize: -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
}

// findTool looks a tool up, and says what there is if it is not there.
func findTool(ctx context.Context, session *mcp.ClientSession, ref config.Ref, name string) (*mcp.Tool, error) {
	tools, err := toolsOf(ctx, session, ref)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, tool := range tools {
		if tool.Name == name {
			return tool, nil
		}
		names = append(names, logs.Printable(tool.Name))
	}
	switch near := config.Nearest(name, names); {
	case near != "":
		return nil, fmt.Errorf("service %s has no tool %q: did you mean %s?", ref, name, near)
	case len(names) == 0:
		return nil, fmt.Errorf("service %s has no tools", ref)
	default:
		return nil, fmt.Errorf("service %s has no tool %q: it has %s", ref, name, strings.Join(names, ", "))
	}
}

// typed makes arguments of texts, by what the tool says that it takes.
func typed(ctx context.Context, session *mcp.ClientSession, ref config.Ref, tool string, texts map[string]string) (map[string]any, error) {
	found, err := findTool(ctx, session, ref, tool)
	if err != nil {
		return nil, err
	}
	takes, err := parametersOf(found)
	if err != nil {
		return nil, err
	}
	args := make(map[string]any)
	for name, text := range texts {
		var value any
		if takes.Properties[name].Type == "string" || json.Unmarshal([]byte(text), &value) != nil {
			value = text
		}
		args[name] = value
	}
	return args, nil
}
