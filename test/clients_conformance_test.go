//go:build unix && clients

package test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
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
		config:  writeConfig(t, fmt.Sprintf("host {\n  listen = %q\n}\nservice \"mcp\" \"c\" {\n  command = [%q]\n}\nservice \"mcp\" \"bridged\" {\n  exec = [%q]\n}\nservice \"mcp\" \"none\" {\n  exec = [%q]\n  sessions = \"none\"\n}\n", gateway, plugin, plugin, plugin)),
	})
	h.waitReady()
	total := regexp.MustCompile(`(?m)^Total: (\d+) passed`)
	single, bridged, joined := h.base+"/mcp/c", h.base+"/mcp/bridged", unprefixed(t, h.base+"/mcp", "c__")
	for _, suite := range []struct {
		name, url, module string
		args              []string
		checks            int // that are passed, at least: none may be left out
	}{
		{"all of 2025-11-25 and before", single, "@modelcontextprotocol/conformance", []string{"--suite", "all"}, 44},
		{"2025-11-25", single, "conformance-next", []string{"--spec-version", "2025-11-25"}, 72},
		{"what 2026-07-28 requires", single, "conformance-next", []string{"--requirements", "2026-07-28"}, 150},
		{"all of 2025-11-25 and before, bridged", bridged, "@modelcontextprotocol/conformance", []string{"--suite", "all"}, 43},
		{"2025-11-25, bridged", bridged, "conformance-next", []string{"--spec-version", "2025-11-25"}, 72},
		{"what 2026-07-28 requires, bridged", h.base + "/mcp/none", "conformance-next", []string{"--requirements", "2026-07-28"}, 150},
		{"all of 2025-11-25 and before, joined", joined, "@modelcontextprotocol/conformance", []string{"--suite", "all"}, 44},
		{"2025-11-25, joined", joined, "conformance-next", []string{"--spec-version", "2025-11-25"}, 72},
		{"what 2026-07-28 requires, joined", joined, "conformance-next", []string{"--requirements", "2026-07-28"}, 150},
	} {
		t.Run(suite.name, func(t *testing.T) {
			script := filepath.Join(clients.dir, "node_modules", suite.module, "dist", "index.js")
			// Its exit status says whether a check has failed that counts.
			out := clients.node(t, 0, append([]string{script, "server", "--url", suite.url}, suite.args...)...)
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

// suiteNames are the tools and prompts that the suites look for.
var suiteNames = regexp.MustCompile(`("name": ?")(test_|json_schema_2020_12_tool)`)

// unprefixed is the URL at which the names of one service at the joined endpoint
// have no prefix, since the suites look for names of their own.
func unprefixed(t *testing.T, endpoint, prefix string) string {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		request, err := http.NewRequestWithContext(r.Context(), r.Method, endpoint, bytes.NewReader(suiteNames.ReplaceAll(body, []byte("${1}"+prefix+"${2}"))))
		if err != nil {
			t.Error(err)
			return
		}
		request.Header, request.Host = r.Header.Clone(), r.Host
		if name := r.Header.Get("Mcp-Name"); name != "" && !strings.Contains(name, "://") {
			request.Header.Set("Mcp-Name", prefix+name)
		}
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			return // the client has left
		}
		defer response.Body.Close()
		maps.Copy(w.Header(), response.Header)
		w.Header().Del("Content-Length")
		w.WriteHeader(response.StatusCode)
		control := http.NewResponseController(w)
		for lines := bufio.NewReader(response.Body); err == nil; {
			var line []byte
			_ = control.Flush()
			line, err = lines.ReadBytes('\n')
			_, _ = w.Write(bytes.ReplaceAll(line, []byte(prefix), nil))
		}
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// TestClientConformanceOfAHostedServer runs a suite against another people's
// server, hosted from its standard input and output, and against that server
// itself over HTTP: no check may fail that does not fail there. (It has not what
// the suite looks for, so there are some.)
func TestClientConformanceOfAHostedServer(t *testing.T) {
	clients := installedClients(t)
	script := filepath.Join(clients.dir, "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js")
	ports := freePorts(t, 2)
	gateway, direct := fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[1])
	server := exec.CommandContext(t.Context(), clients.runtime, script, "streamableHttp")
	server.Env = []string{"PATH=" + os.Getenv("PATH"), fmt.Sprintf("PORT=%d", ports[1])}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	h := startHost(t, hostOptions{
		gateway: gateway,
		config: writeConfig(t, fmt.Sprintf("host {\n  listen = %q\n}\nservice \"mcp\" \"e\" {\n  exec = [%q, %q, \"stdio\"]\n  ready {\n    timeout = %q\n  }\n}\n",
			gateway, clients.runtime, script, patience)),
	})
	h.waitReady()
	eventually(t, "the server listens", func() bool {
		conn, err := net.Dial("tcp", direct)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
	line := regexp.MustCompile(`(?m)^[✓✗] (\S+): \d+ passed, (\d+) failed`)
	failed := func(url string) map[string]string {
		suite := filepath.Join(clients.dir, "node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js")
		found := make(map[string]string)
		for _, match := range line.FindAllSubmatch(clients.node(t, 1, suite, "server", "--url", url, "--suite", "all"), -1) {
			found[string(match[1])] = string(match[2])
		}
		return found
	}
	hosted, itself := failed(h.base+"/mcp/e"), failed("http://"+direct+"/mcp")
	if len(hosted) < 32 || len(hosted) != len(itself) {
		t.Errorf("%d scenarios were run, and %d directly", len(hosted), len(itself))
	}
	for scenario, count := range hosted {
		if count != "0" && count != itself[scenario] {
			t.Errorf("%s: %s checks fail, and %s directly", scenario, count, itself[scenario])
		}
	}
}
