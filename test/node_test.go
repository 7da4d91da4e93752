//go:build unix && clients

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// nodePlugin is the example plugin that is not written in Go, with what runs it.
// Its packages are installed by npm.
func nodePlugin(t *testing.T) (runtime, script string) {
	t.Helper()
	dir := filepath.Join(repositoryRoot(t), "plugins", "mcp-node-example")
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
		t.Fatalf("its packages are not installed: run 'npm ci' in %s (%v)", dir, err)
	}
	return installedClients(t).runtime, filepath.Join(dir, "index.mjs")
}

func TestClientNodePluginKeepsThePromises(t *testing.T) {
	t.Parallel()
	runtime, script := nodePlugin(t)
	stdout, stderr, code := plughost(t, "plugin", "check", "--strict", runtime, script)
	if code != 0 {
		t.Errorf("exit status %d\n%s%s", code, stdout, stderr)
	}
}

func TestClientNodePluginIsHosted(t *testing.T) {
	t.Parallel()
	runtime, script := nodePlugin(t)
	gateway := fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)[0])
	h := startHost(t, hostOptions{gateway: gateway, config: writeConfig(t, fmt.Sprintf(`
host {
  listen = %q
}
service "mcp" "node" {
  command = [%q, %q]
  ready {
    timeout = "60s"
  }
  config {
    greeting = "Moin"
  }
}
`, gateway, runtime, script))})
	h.waitReady()
	result, err := connectMCP(t, h.base+"/mcp/node").CallTool(t.Context(), &mcp.CallToolParams{
		Name: "greet", Arguments: map[string]any{"name": "Ada"},
	})
	if err != nil || result.IsError || result.Content[0].(*mcp.TextContent).Text != "Moin, Ada!" {
		t.Errorf("it says %+v, %v", result, err)
	}
	h.stop()
	if !strings.Contains(h.output.String(), "all services are stopped") {
		t.Error("it was not stopped")
	}
}
