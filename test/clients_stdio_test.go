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

// endpoints are all of the sample's, over both.
func (h *host) endpoints() []endpoint {
	stdio := []string{filepath.Join(binaries, "plughost"), "mcp", "--state-dir", h.stateDir}
	return []endpoint{
		{"HTTP, all services", h.base + "/mcp", nil, "clock__"},
		{"HTTP, one service", h.base + "/mcp/clock", nil, ""},
		{"stdio, all services", "", stdio, "clock__"},
		{"stdio, one service", "", append(slices.Clone(stdio), "--service", "clock"), ""},
	}
}

// TestClientTypeScript has the official client for TypeScript do a little of
// everything.
func TestClientTypeScript(t *testing.T) {
	clients := installedClients(t)
	h := startSample(t)
	for _, e := range h.endpoints() {
		t.Run(e.name, func(t *testing.T) {
			args := []string{filepath.Join(clients.dir, "mcp.mjs"), "http", e.url}
			if e.command != nil {
				args = append([]string{args[0], "stdio"}, e.command...)
			}
			var got struct {
				Tools, Resources, Prompts []string
				Zones, Failed             bool
				Zone, Unknown             string
			}
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
		})
	}
}

// TestClientInspectorOverStdio has the MCP Inspector start `plughost mcp`, as a
// client of each era of the protocol.
func TestClientInspectorOverStdio(t *testing.T) {
	clients := installedClients(t)
	h := startSample(t)
	for _, era := range []string{"legacy", "modern"} {
		for _, e := range h.endpoints() {
			if e.command == nil {
				continue
			}
			t.Run(era+", "+e.name, func(t *testing.T) {
				args := []string{
					clients.inspector, "--cli", "--protocol-era", era, "--quiet", "--format", "json",
					"--method", "tools/call", "--tool-name", e.prefix + "now", "--tool-args-json", `{"zone":"UTC"}`, "--",
				}
				var got struct {
					Result struct{ StructuredContent struct{ Zone string } }
				}
				stdout := clients.node(t, 0, append(args, e.command...)...)
				if err := json.Unmarshal(stdout, &got); err != nil || got.Result.StructuredContent.Zone != "UTC" {
					t.Errorf("%v: %s", err, stdout)
				}
			})
		}
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
	for _, e := range h.endpoints() {
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
