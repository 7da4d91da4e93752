//go:build unix && clients

package test

import (
	"context"
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
			// Over HTTP the first time, over standard input and output the other.
			if killed {
				checkFiles(t, overStdio(t, h.stateDir, "2026-07-28", "--service", "files"), dir)
				checkEverything(t, clients, h.endpoints("everything")[3])
			} else {
				checkFiles(t, connectMCP(t, h.base+"/mcp/files"), dir)
				checkEverything(t, clients, h.endpoints("everything")[1])
				checkTasks(t, clients, h.base+"/mcp", "everything__simulate-research-query")
			}
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
func checkFiles(t *testing.T, session *mcp.ClientSession, dir string) {
	t.Helper()
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
func checkEverything(t *testing.T, clients clients, e endpoint) {
	t.Helper()
	var got struct {
		Tools, Progress    []string
		Resources, Prompts int
		Echo, Again        string
		Asked, Sampled     string
		Cancelled          bool
	}
	output := clients.node(t, 0, append([]string{filepath.Join(clients.dir, "everything.mjs")}, e.arguments()...)...)
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
	// This client drops progress that it reads in one piece with the answer.
	if all := "1/4 2/4 3/4 4/4"; len(got.Progress) < 3 || !strings.HasPrefix(all, strings.Join(got.Progress, " ")) {
		t.Errorf("the progress is %v, want %s", got.Progress, all)
	}
}

// checkTasks has a tool called as a task, in whose course it asks the client, and
// another one cancelled.
func checkTasks(t *testing.T, clients clients, url, tool string) {
	t.Helper()
	var got struct {
		Text, Error, Finished, Cancelled string
		Same                             bool
		Listed                           int
	}
	output := clients.node(t, 0, filepath.Join(clients.dir, "tasks.mjs"), url, tool)
	if err := json.Unmarshal(output, &got); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got.Text, "# Research Report: clocks (technical)") || !got.Same || got.Finished != "completed" || got.Cancelled != "cancelled" {
		t.Errorf("got %s", output)
	}
	// One process serves all sessions, and its list is not the client's alone.
	if got.Listed != 0 {
		t.Errorf("%d tasks are listed", got.Listed)
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
			const arguments = `{"message":"hello"}`
			var call, overStdio struct{ Content []struct{ Text string } }
			inspector.run(t, 0, &call, "--method", "tools/call", "--tool-name", "echo", "--tool-args-json", arguments)
			inspector.callOverStdio(t, h.endpoints("everything")[2], "echo", arguments, &overStdio)
			for _, got := range []struct{ Content []struct{ Text string } }{call, overStdio} {
				if len(got.Content) != 1 || got.Content[0].Text != "Echo: hello" {
					t.Errorf("got %+v", got)
				}
			}
			var list struct{ Resources []named }
			inspector.run(t, 0, &list, "--method", "resources/list")
			if len(list.Resources) == 0 {
				t.Error("there are no resources")
			}
		})
	}
}

// TestClientOfServersWithoutSessions hosts servers that ask for something in
// their results: used with a session, without any, and that know nothing else.
func TestClientOfServersWithoutSessions(t *testing.T) {
	clients := installedClients(t)
	var services []string
	for name, sessions := range map[string]string{"shared": "shared", "none": "none", "only": "shared"} {
		mode := map[string]string{"only": "reject"}[name]
		services = append(services, fmt.Sprintf("service \"mcp\" %q {\n  exec = [%q, %q%s]\n  sessions = %q\n  env = { NODE_DISABLE_COMPILE_CACHE = \"1\" }\n}\n",
			name, clients.runtime, filepath.Join(clients.dir, "asking.mjs"), quoted(mode), sessions))
	}
	h := startFaults(t, hostOptions{}, services...)
	h.waitReady()
	for _, name := range []string{"shared", "none", "only"} {
		for _, revision := range []string{"2025-11-25", "2026-07-28"} {
			session := connectAs(t, h.base+"/mcp/"+name, revision, &mcp.ClientOptions{
				ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					return &mcp.ElicitResult{Action: "decline"}, nil
				},
			})
			result, err := session.CallTool(t.Context(), callParams("ask"))
			if err != nil || result.IsError || result.Content[0].(*mcp.TextContent).Text != "decline" {
				t.Errorf("%s, %s: the server answers %v, %v, want what the client said", name, revision, result, err)
			}
		}
	}
}

// quoted is another element of a list.
func quoted(text string) string {
	if text == "" {
		return ""
	}
	return fmt.Sprintf(", %q", text)
}
