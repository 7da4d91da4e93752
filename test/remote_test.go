//go:build unix

package test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestHeadersOfARemoteServerAreSeenNowhere hosts a remote server that wants a
// secret, and looks for it wherever others could.
func TestHeadersOfARemoteServerAreSeenNowhere(t *testing.T) {
	t.Parallel()
	const canary = "canary-7f3e9a"
	remote := mcp.NewServer(&mcp.Implementation{Name: "remote", Version: "1"}, nil)
	mcp.AddTool(remote, &mcp.Tool{Name: "pid"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, struct{}, error) {
		return nil, struct{}{}, nil
	})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return remote }, nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Token") != canary {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	service := func(token string) string {
		return fmt.Sprintf("service \"mcp\" \"remote\" {\n  url = %q\n  headers = { X-Token = sensitive(%q) }\n}\n", server.URL, token)
	}
	opts := faultConfig(t, hostOptions{stateDir: newStateDir(t)}, service(canary))
	h := startHost(t, opts)
	h.waitReady()
	h.connect(t, "remote")

	for _, p := range instanceProcesses(t, h.status()["remote"].Instance) {
		for _, name := range []string{"cmdline", "environ"} {
			content, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.PID, name))
			if err == nil && strings.Contains(string(content), canary) {
				t.Errorf("the secret is in the %s of pid %d", name, p.PID)
			}
		}
	}
	for _, path := range filesWith(t, opts.stateDir, canary) {
		t.Errorf("the secret is in %s", path)
	}
	check(t, os.WriteFile(opts.config, []byte(strings.Replace(readFile(t, opts.config), canary, "wrong-"+canary, 1)), 0o600))
	for _, args := range [][]string{{"plan"}, {"plan", "--json"}, {"reload"}, {"status", "--json"}, {"logs", "--json", "remote"}} {
		stdout, stderr, _ := plughost(t, append(args, "--state-dir", opts.stateDir)...)
		if strings.Contains(stdout+stderr, canary) {
			t.Errorf("the secret is in what plughost %v prints: %s%s", args, stdout, stderr)
		}
		if args[0] == "plan" && !strings.Contains(stdout, "headers.X-Token") {
			t.Errorf("plughost %v does not tell what has changed: %s", args, stdout)
		}
	}
	if status := h.waitState("remote", "failed"); !strings.Contains(status.LastError, "401") {
		t.Errorf("with another secret the service is %+v, want the server's status", status)
	}
	if strings.Contains(h.output.String(), canary) {
		t.Error("the secret is in the host's own log")
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	check(t, err)
	return string(content)
}
