//go:build unix && clients

package test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// TestClientConformance runs the official conformance suites against a plugin
// behind the gateway, and against the same under the bridge, where it does not
// know that it is one.
func TestClientConformance(t *testing.T) {
	clients := installedClients(t)
	plugin := filepath.Join(t.TempDir(), "conformanceplugin")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", plugin, "./conformanceplugin").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	gateway := fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)[0])
	h := startHost(t, hostOptions{
		gateway: gateway,
		config:  writeConfig(t, fmt.Sprintf("host {\n  listen = %q\n}\nservice \"mcp\" \"c\" {\n  command = [%q]\n}\nservice \"mcp\" \"bridged\" {\n  exec = [%q]\n}\n", gateway, plugin, plugin)),
	})
	h.waitReady()
	total := regexp.MustCompile(`(?m)^Total: (\d+) passed`)
	for _, suite := range []struct {
		name, service, module string
		args                  []string
		checks                int // that are passed, at least: none may be left out
	}{
		{"all of 2025-11-25 and before", "c", "@modelcontextprotocol/conformance", []string{"--suite", "all"}, 44},
		{"2025-11-25", "c", "conformance-next", []string{"--spec-version", "2025-11-25"}, 72},
		{"what 2026-07-28 requires", "c", "conformance-next", []string{"--requirements", "2026-07-28"}, 150},
		{"all of 2025-11-25 and before, bridged", "bridged", "@modelcontextprotocol/conformance", []string{"--suite", "all"}, 43},
		{"2025-11-25, bridged", "bridged", "conformance-next", []string{"--spec-version", "2025-11-25"}, 72},
	} {
		t.Run(suite.name, func(t *testing.T) {
			script := filepath.Join(clients.dir, "node_modules", suite.module, "dist", "index.js")
			// Its exit status says whether a check has failed that counts.
			out := clients.node(t, 0, append([]string{script, "server", "--url", h.base + "/mcp/" + suite.service}, suite.args...)...)
			match := total.FindSubmatch(out)
			if match == nil {
				t.Fatalf("the suite says no total:\n%s", out)
			}
			if passed, _ := strconv.Atoi(string(match[1])); passed < suite.checks {
				t.Errorf("%d checks are passed, want %d at least:\n%s", passed, suite.checks, out)
			}
		})
	}
}
