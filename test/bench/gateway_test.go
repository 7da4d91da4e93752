//go:build linux

package bench

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	mcpInitialize  = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
	mcpInitialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	// callsATurn is how many calls are made in one turn.
	callsATurn = 1000
)

// mcpClient is a session whose requests cost nearly nothing: they are encoded
// before, and answers are not decoded.
type mcpClient struct {
	b       *testing.B
	url     string
	session string
	http    *http.Client
}

func newMCPClient(b *testing.B, url string, callers int) *mcpClient {
	b.Helper()
	c := &mcpClient{b: b, url: url, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}}
	b.Cleanup(c.http.CloseIdleConnections)
	c.session = c.post(mcpInitialize, "").Get("Mcp-Session-Id")
	c.post(mcpInitialized, "")
	return c
}

// post sends a message, and fails if want is not in the answer.
func (c *mcpClient) post(message, want string) http.Header {
	request, err := http.NewRequest(http.MethodPost, c.url, strings.NewReader(message))
	if err != nil {
		c.b.Error(err)
		return nil
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	if c.session != "" {
		request.Header.Set("Mcp-Session-Id", c.session)
	}
	response, err := c.http.Do(request)
	if err != nil {
		c.b.Error(err)
		return nil
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 300 || !strings.Contains(string(body), want) {
		c.b.Errorf("%s: status %d, %s, error %v", c.url, response.StatusCode, body, err)
	}
	return response.Header
}

// calls has so many callers make the calls of a turn, and returns how long a
// call took, by the clock of all of them together.
func (c *mcpClient) calls(callers int, tool string) time.Duration {
	var all sync.WaitGroup
	start := time.Now()
	for caller := range callers {
		all.Go(func() {
			for n := caller + 1; n <= callsATurn; n += callers {
				c.post(`{"jsonrpc":"2.0","id":`+strconv.Itoa(n)+`,"method":"tools/call","params":{"name":"`+tool+`","arguments":{}}}`, "simple text")
			}
		})
	}
	all.Wait()
	return time.Since(start) / callsATurn
}

// One call of a tool that does nothing: of the plugin on its own port, through
// the endpoint of its service, and through the one that joins all. "cpu-us" is
// what the host itself takes of a processor for a call to its service.
func BenchmarkCall(b *testing.B) {
	needBinaries(b)
	program := filepath.Join(binaries, "conformanceplugin")
	if output, err := exec.Command("go", "build", "-o", program, "../conformanceplugin").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, output)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	h := startHost(b, service("c", "conformanceplugin", fmt.Sprintf("  port = %d\n", port)))
	_, base, _ := strings.Cut(h.waitReady().text, "MCP at ")
	base, _, _ = strings.Cut(base, ",")
	for _, callers := range []int{1, 16} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			var used []time.Duration
			turn := func(name, url, tool string) contestant {
				c := newMCPClient(b, url, callers)
				return contestant{name, func(*testing.B) time.Duration { return c.calls(callers, tool) }}
			}
			relayed := turn("service", base+"/c", "test_simple_text")
			medians := inTurns(b, 7,
				turn("direct", fmt.Sprintf("http://127.0.0.1:%d/mcp", port), "test_simple_text"),
				contestant{"service", func(b *testing.B) time.Duration {
					before := cpu(b, h.cmd.Process.Pid)
					took := relayed.run(b)
					used = append(used, (cpu(b, h.cmd.Process.Pid)-before)/callsATurn)
					return took
				}},
				turn("joined", base, "c__test_simple_text"),
			)
			ratio(b, "service-x-direct", medians["service"], medians["direct"])
			ratio(b, "joined-x-direct", medians["joined"], medians["direct"])
			b.ReportMetric(float64(median(used).Microseconds()), "cpu-us")
		})
	}
	h.stop()
}
