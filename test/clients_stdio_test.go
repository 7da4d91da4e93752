//go:build unix && clients

package test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// endpoint is one of a host's, over HTTP or over `plughost mcp`.
type endpoint struct {
	name    string
	url     string
	command []string // that serves it on standard input and output
	prefix  string   // of the names of tools and prompts
}

// endpoints are all of a service, over both.
func (h *host) endpoints(service string) []endpoint {
	stdio := []string{filepath.Join(binaries, "plughost"), "mcp", "--state-dir", h.stateDir}
	return []endpoint{
		{"HTTP, all services", h.base + "/mcp", nil, service + "__"},
		{"HTTP, one service", h.base + "/mcp/" + service, nil, ""},
		{"stdio, all services", "", stdio, service + "__"},
		{"stdio, one service", "", append(slices.Clone(stdio), "--service", service), ""},
	}
}

// arguments name the endpoint to the scripts in the directory clients.
func (e endpoint) arguments() []string {
	if e.command != nil {
		return append([]string{"stdio"}, e.command...)
	}
	return []string{"http", e.url}
}

// TestClientTypeScript has the official clients for TypeScript, one for each era
// of the protocol, do a little of everything.
func TestClientTypeScript(t *testing.T) {
	clients := installedClients(t)
	h := startSample(t)
	for _, era := range []string{"legacy", "modern"} {
		for _, e := range h.endpoints("clock") {
			t.Run(era+", "+e.name, func(t *testing.T) { e.checkTypeScript(t, clients, era) })
		}
	}
}

func (e endpoint) checkTypeScript(t *testing.T, clients clients, era string) {
	t.Helper()
	var got struct {
		Tools, Resources, Prompts []string
		Zones, Failed             bool
		Zone, Unknown             string
	}
	args := append([]string{filepath.Join(clients.dir, "mcp.mjs"), era}, e.arguments()...)
	if err := json.Unmarshal(clients.node(t, 0, args...), &got); err != nil {
		t.Fatal(err)
	}
	slices.Sort(got.Tools)
	if want := []string{e.prefix + "convert", e.prefix + "days_between", e.prefix + "now"}; !slices.Equal(got.Tools, want) {
		t.Errorf("tools %q, want %q", got.Tools, want)
	}
	if !slices.Equal(got.Prompts, []string{e.prefix + "meeting"}) || !slices.Equal(got.Resources, []string{"clock://zones"}) {
		t.Errorf("prompts %q, resources %q", got.Prompts, got.Resources)
	}
	if !got.Zones || got.Zone != "UTC" || !got.Failed || got.Unknown != "refused" {
		t.Errorf("got %+v", got)
	}
}

// TestClientInspectorOverStdio has the MCP Inspector start `plughost mcp`, as a
// client of each era of the protocol.
func TestClientInspectorOverStdio(t *testing.T) {
	clients := installedClients(t)
	h := startSample(t)
	for _, era := range []string{"legacy", "modern"} {
		for _, e := range h.endpoints("clock") {
			if e.command == nil {
				continue
			}
			t.Run(era+", "+e.name, func(t *testing.T) {
				var got struct{ StructuredContent struct{ Zone string } }
				inspector{clients: clients, era: era}.callOverStdio(t, e, "now", `{"zone":"UTC"}`, &got)
				if got.StructuredContent.Zone != "UTC" {
					t.Errorf("got %+v", got)
				}
			})
		}
	}
}

// callOverStdio has the inspector start an endpoint's command and call a tool.
func (i inspector) callOverStdio(t *testing.T, e endpoint, tool, arguments string, result any) {
	t.Helper()
	args := []string{
		i.clients.inspector, "--cli", "--protocol-era", i.era, "--quiet", "--format", "json",
		"--method", "tools/call", "--tool-name", e.prefix + tool, "--tool-args-json", arguments, "--",
	}
	stdout := i.clients.node(t, 0, append(args, e.command...)...)
	envelope := struct{ Result any }{result}
	if err := json.Unmarshal(stdout, &envelope); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
}

// TestClientOldInspector has an older Inspector, on an older Node.js, call a
// tool over both.
func TestClientOldInspector(t *testing.T) {
	clients := installedClients(t)
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal(err)
	}
	clients.runtime = node
	cli := filepath.Join(clients.dir, "node_modules", "@modelcontextprotocol", "inspector-cli", "build", "cli.js")
	h := startSample(t)
	for _, e := range h.endpoints("clock") {
		if e.url == h.base+"/mcp/clock" {
			continue // over HTTP this one asks for /mcp, whatever the path
		}
		t.Run(e.name, func(t *testing.T) {
			args := append([]string{cli, "--cli"}, e.command...)
			if e.command == nil {
				args = append(args, e.url, "--transport", "http")
			}
			var got struct{ StructuredContent struct{ Zone string } }
			stdout := clients.node(t, 0, append(args, "--method", "tools/call", "--tool-name", e.prefix+"now", "--tool-arg", "zone=UTC")...)
			if err := json.Unmarshal(stdout, &got); err != nil || got.StructuredContent.Zone != "UTC" {
				t.Errorf("%v: %s", err, stdout)
			}
		})
	}
}
