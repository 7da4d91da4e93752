package plugintest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/mcpplugin"
	"github.com/plughost/plughost/test/freeport"
)

type settings struct {
	Greeting string `json:"greeting"`
}

// The test binary is its own plugin.
func TestMain(m *testing.M) {
	if !shared.Hosted() {
		os.Exit(m.Run())
	}
	s := settings{Greeting: "Hello"}
	server := mcp.NewServer(&mcp.Implementation{Name: "greeter"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "greet"}, s.greet)
	mcpplugin.Serve(server, mcpplugin.WithConfig(&s))
}

func (s *settings) greet(_ context.Context, _ *mcp.CallToolRequest, in struct{}) (*mcp.CallToolResult, any, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s.Greeting + " " + os.Getenv("WHOM")}}}, nil, nil
}

func TestAPluginIsHostedAndGone(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	port := freeport.Take(t, 1)[0]
	plugin := Start(t, self, WithConfig(settings{Greeting: "Hi"}), WithEnv("WHOM=you"), WithPort(port))
	if plugin.Describe().GetName() == "" {
		t.Error("it has no name")
	}
	result, err := plugin.MCP().CallTool(t.Context(), &mcp.CallToolParams{Name: "greet"})
	if err != nil || result.Content[0].(*mcp.TextContent).Text != "Hi you" {
		t.Errorf("it says %+v, %v", result, err)
	}
	response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/mcp", port))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	dir := plugin.dir
	plugin.Stop()
	if !plugin.process.Exited() {
		t.Error("it is still there")
	}
	plugin.cleanUp()
	if _, err := os.Stat(dir); err == nil {
		t.Error("its directory is still there")
	}
}

func TestAFaultyConfigurationIsAFailedStart(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := newPlugin(t)
	if err := p.start(self, options{config: map[string]int{"greeting": 5}}); err == nil || !strings.Contains(err.Error(), "greeting") {
		t.Errorf("error %v", err)
	}
	if sockets, err := filepath.Glob(filepath.Join(p.dir, "plugin*")); err != nil || len(sockets) != 1 {
		t.Errorf("its socket is not where the instance's files are, and removed with them: %v, %v", sockets, err)
	}
}
