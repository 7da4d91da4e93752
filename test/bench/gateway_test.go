//go:build linux

package bench

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
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
	b       testing.TB
	url     string
	session string
	http    *http.Client
}

func newMCPClient(b testing.TB, url string, callers int) *mcpClient {
	b.Helper()
	c := &mcpClient{b: b, url: url, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}}
	b.Cleanup(c.http.CloseIdleConnections)
	c.initialize()
	return c
}

// initialize begins the session.
func (c *mcpClient) initialize() {
	c.session = c.post(mcpInitialize, "").Get("Mcp-Session-Id")
	c.post(mcpInitialized, "")
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

// endpoint is where a tool can be called that does nothing. pid is the gateway's
// whose processor time is of interest, or 0.
type endpoint struct {
	name, url, tool string
	pid             int
}

// One call of a tool that does nothing: of the plugin on its own port, through
// the endpoint of its service, through the one that joins all, of the same server
// on standard input and output behind the bridge, and behind other gateways if they
// are installed (npm ci in peers). "cpu-us" is what the gateway itself takes of a
// processor for a call.
func BenchmarkCall(b *testing.B) {
	needBinaries(b)
	program := filepath.Join(binaries, "conformanceplugin")
	port := freePort(b)
	h := startHost(b, service("c", "conformanceplugin", fmt.Sprintf("  port = %d\n", port))+
		fmt.Sprintf("service \"mcp\" \"e\" {\n  exec = [%q]\n}\n", program))
	base := h.waitEndpoint()
	const tool = "test_simple_text"
	endpoints := append([]endpoint{
		{"direct", fmt.Sprintf("http://127.0.0.1:%d/mcp", port), tool, 0},
		{"service", base + "/c", tool, h.cmd.Process.Pid},
		{"joined", base, "c__" + tool, h.cmd.Process.Pid},
		{"exec", base + "/e", tool, h.cmd.Process.Pid},
	}, startPeers(b, program, tool)...)
	for _, callers := range []int{1, 16} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) { compareCalls(b, endpoints, callers) })
	}
	h.stop()
}

// compareCalls has all endpoints called in turns by so many callers.
func compareCalls(b *testing.B, endpoints []endpoint, callers int) {
	used := make(map[string][]time.Duration)
	var all []contestant
	for _, e := range endpoints {
		client := newMCPClient(b, e.url, callers)
		all = append(all, contestant{e.name, func(b *testing.B) time.Duration {
			if e.pid == 0 {
				return client.calls(callers, e.tool)
			}
			before := cpu(b, e.pid)
			took := client.calls(callers, e.tool)
			used[e.name] = append(used[e.name], (cpu(b, e.pid)-before)/callsATurn)
			return took
		}})
	}
	medians := inTurns(b, 7, all...)
	for _, e := range endpoints[1:] {
		ratio(b, e.name+"-x-direct", medians[e.name], medians["direct"])
		b.ReportMetric(float64(median(used[e.name]).Microseconds()), e.name+"-cpu-us")
	}
}

// startPeers starts other gateways in front of a server on standard input and
// output, those that are installed.
func startPeers(b *testing.B, program, tool string) (peers []endpoint) {
	b.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		b.Logf("other gateways are left out: %v", err)
		return nil
	}
	for name, args := range map[string]func(port string) []string{
		"supergateway": func(port string) []string {
			return []string{"--stdio", program, "--outputTransport", "streamableHttp", "--stateful", "--port", port}
		},
		"mcp-proxy": func(port string) []string {
			return []string{"--host", "127.0.0.1", "--port", port, "--server", "stream", "--", program}
		},
	} {
		script := filepath.Join("peers", "node_modules", ".bin", name)
		if _, err := os.Stat(script); err != nil {
			b.Logf("%s is left out, which is not installed (npm ci in test/bench/peers): %v", name, err)
			continue
		}
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(b)))
		_, port, _ := net.SplitHostPort(address)
		pid := startPeer(b, node, append([]string{script}, args(port)...), address)
		peers = append(peers, endpoint{name, "http://" + address + "/mcp", tool, pid})
	}
	return peers
}

// startPeer starts a gateway and returns its pid when it listens.
func startPeer(b *testing.B, node string, args []string, address string) int {
	b.Helper()
	cmd := exec.Command(node, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // with what it has started
		_ = cmd.Wait()
	})
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			return cmd.Process.Pid
		}
		select {
		case <-tick.C:
		case <-deadline:
			b.Fatalf("%v does not listen on %s", args, address)
		}
	}
}

// freePort returns a port that is free now.
func freePort(b *testing.B) int {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}
