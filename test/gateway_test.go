//go:build unix

package test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestHostWhoseGatewayPortIsTakenSaysByWhom(t *testing.T) {
	t.Parallel()
	port := freePorts(t, 1)[0]
	stranger := startHelper(t, "listen", fmt.Sprint(port))
	config := writeConfig(t, fmt.Sprintf("host {\n  listen = \"127.0.0.1:%d\"\n}\n", port)+fault("f", ""))
	_, stderr, code := plughost(t, "run", "--config", config, "--state-dir", newStateDir(t))
	want := fmt.Sprintf("cannot open the gateway: port %d is held by pid %d", port, stranger.Process.Pid)
	if code != 1 || !strings.Contains(stderr, want) {
		t.Errorf("the host ended with status %d and wrote %q, want 1 and %q", code, stderr, want)
	}
	if !alive(stranger.Process.Pid) {
		t.Error("the stranger was ended")
	}
}

func TestGatewayRefusesWebPagesOfElsewhere(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, fault("f", ""))
	h.waitReady()
	body := []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	tests := []struct {
		name, host string
		origins    []string
		want       int
	}{
		{"a program", "", nil, 200},
		{"a page of this machine", "", []string{"http://localhost:3000"}, 200},
		{"a page of elsewhere", "", []string{"https://evil.example"}, 403},
		{"a page of nowhere", "", []string{"null"}, 403},
		{"two pages", "", []string{"http://localhost:3000", "https://evil.example"}, 403},
		{"a rebound name", "evil.example", nil, 403},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, path := range []string{"/mcp", "/mcp/f"} {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.base+path, bytes.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				request.Header.Set("Content-Type", "application/json")
				request.Header.Set("Accept", "application/json, text/event-stream")
				if test.host != "" {
					request.Host = test.host
				}
				for _, origin := range test.origins {
					request.Header.Add("Origin", origin)
				}
				response, err := http.DefaultClient.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				response.Body.Close()
				if response.StatusCode != test.want {
					t.Errorf("%s answers %d, want %d", path, response.StatusCode, test.want)
				}
			}
		})
	}
}
