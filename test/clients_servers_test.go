//go:build unix && clients

package test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The tests in this file host servers that others wrote, in another language.

// startServers starts a host with the servers "everything", started by npx as
// people do, and "filesystem", which serves a directory.
func startServers(t *testing.T, clients clients, dir string) *host {
	t.Helper()
	npx, err := exec.LookPath("npx")
	if err != nil {
		t.Fatal(err)
	}
	files := filepath.Join(clients.dir, "node_modules", "@modelcontextprotocol", "server-filesystem", "dist", "index.js")
	const body = `  dir     = %q
  inherit = ["PATH"]
  env     = { HOME = %q, NODE_DISABLE_COMPILE_CACHE = "1" }
  ready {
    timeout = %q
  }
}
`
	common := fmt.Sprintf(body, clients.dir, t.TempDir(), patience)
	h := startFaults(t, hostOptions{},
		fmt.Sprintf("service \"mcp\" \"everything\" {\n  exec    = [%q, \"--offline\", \"mcp-server-everything\"]\n", npx)+common,
		fmt.Sprintf("service \"mcp\" \"files\" {\n  exec    = [%q, %q, %q]\n", clients.runtime, files, dir)+common)
	h.waitReady()
	return h
}

// TestClientsOfHostedServers has the official clients use both servers, and
// nothing be left of them, whether the host is stopped or killed.
func TestClientsOfHostedServers(t *testing.T) {
	clients := installedClients(t)
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("host killed %v", killed), func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			check(t, err)
			h := startServers(t, clients, dir)
			checkFiles(t, h, dir)
			checkEverything(t, h, clients)
			var all []int
			for _, status := range h.status() {
				all = append(all, status.PID)
				all = append(all, servers(t, status)...)
			}
			if len(all) < 5 {
				t.Errorf("only %v run, want two bridges, npx, what it starts, and node", all)
			}
			if killed {
				h.kill()
			} else {
				h.stop()
			}
			eventually(t, "all are gone", func() bool { return !slices.ContainsFunc(all, alive) })
			checkNothingRuns(t, h.stateDir)
		})
	}
}

// checkFiles writes and reads a file.
func checkFiles(t *testing.T, h *host, dir string) {
	t.Helper()
	session := connectMCP(t, h.base+"/mcp/files")
	path := filepath.Join(dir, "greeting")
	for _, call := range []*mcp.CallToolParams{
		{Name: "write_file", Arguments: map[string]any{"path": path, "content": "hello"}},
		{Name: "read_text_file", Arguments: map[string]any{"path": path}},
	} {
		result, err := session.CallTool(t.Context(), call)
		if err != nil || result.IsError {
			t.Fatalf("%s: %v %v", call.Name, result, err)
		}
		if text := result.Content[0].(*mcp.TextContent).Text; call.Name == "read_text_file" && text != "hello" {
			t.Errorf("read %q", text)
		}
	}
	if content := readFile(t, path); content != "hello" {
		t.Errorf("the file has %q", content)
	}
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "read_text_file", Arguments: map[string]any{"path": "/etc/passwd"}})
	if err == nil && !result.IsError {
		t.Error("a file of elsewhere is read")
	}
}

// checkEverything uses the server with the client for TypeScript.
func checkEverything(t *testing.T, h *host, clients clients) {
	t.Helper()
	var got struct {
		Tools, Progress    []string
		Resources, Prompts int
		Echo, Again        string
		Asked, Sampled     string
		Cancelled          bool
	}
	output := clients.node(t, 0, filepath.Join(clients.dir, "everything.mjs"), h.base+"/mcp/everything")
	if err := json.Unmarshal(output, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Tools) < 14 || got.Resources == 0 || got.Prompts == 0 {
		t.Errorf("there are %d tools, %d resources and %d prompts", len(got.Tools), got.Resources, got.Prompts)
	}
	if got.Echo != "Echo: hello" || got.Again != "Echo: again" || !got.Cancelled {
		t.Errorf("got %s", output)
	}
	if !strings.Contains(got.Asked, "declined") || !strings.Contains(got.Sampled, "sampled") {
		t.Errorf("the server was told %q and %q, want what the client said", got.Asked, got.Sampled)
	}
	if want := "1/4 2/4 3/4 4/4"; strings.Join(got.Progress, " ") != want {
		t.Errorf("the progress is %v, want %s", got.Progress, want)
	}
}

// TestClientInspectorOfHostedServers has the MCP Inspector use a server that
// knows no revision without sessions, as a client of each era.
func TestClientInspectorOfHostedServers(t *testing.T) {
	clients := installedClients(t)
	h := startServers(t, clients, t.TempDir())
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			inspector := inspector{clients: clients, url: h.base + "/mcp/everything", era: era}
			var call struct{ Content []struct{ Text string } }
			inspector.run(t, 0, &call, "--method", "tools/call", "--tool-name", "echo", "--tool-args-json", `{"message":"hello"}`)
			if len(call.Content) != 1 || call.Content[0].Text != "Echo: hello" {
				t.Errorf("got %+v", call)
			}
			var list struct{ Resources []named }
			inspector.run(t, 0, &list, "--method", "resources/list")
			if len(list.Resources) == 0 {
				t.Error("there are no resources")
			}
		})
	}
}
