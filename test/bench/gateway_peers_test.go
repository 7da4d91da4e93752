//go:build linux

package bench

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/plughost/plughost/test/freeport"
)

// peerNames are the other gateways, which are npm packages.
var peerNames = []string{"supergateway", "mcp-proxy"}

// startPeers starts other gateways in front of a server on standard input and
// output, those that are installed.
func startPeers(b *testing.B, program, tool string) (peers []endpoint) {
	b.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		b.Logf("other gateways are left out: %v", err)
		return nil
	}
	args := map[string]func(port string) []string{
		"supergateway": func(port string) []string {
			return []string{"--stdio", program, "--outputTransport", "streamableHttp", "--stateful", "--port", port}
		},
		"mcp-proxy": func(port string) []string {
			return []string{"--host", "127.0.0.1", "--port", port, "--server", "stream", "--", program}
		},
	}
	for _, name := range peerNames {
		script := filepath.Join("peers", "node_modules", ".bin", name)
		if _, err := os.Stat(script); err != nil {
			b.Logf("%s is left out, which is not installed (npm ci in test/bench/peers): %v", name, err)
			continue
		}
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(freeport.Take(b, 1)[0]))
		_, port, _ := net.SplitHostPort(address)
		pid := startPeer(b, node, append([]string{script}, args[name](port)...), address)
		peers = append(peers, endpoint{name, "http://" + address + "/mcp", tool, []int{pid}, nil})
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
