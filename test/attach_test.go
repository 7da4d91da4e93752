//go:build unix

package test

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/shared"
)

// startDebugged starts the example clock by hand, as under a debugger, and
// returns what to set for a host.
func startDebugged(t *testing.T, service string) (cmd *exec.Cmd, reattach string) {
	t.Helper()
	cmd = exec.Command(filepath.Join(binaries, "mcp-example"))
	cmd.Env = append(cmd.Environ(), shared.EnvDebug+"="+service)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line := regexp.MustCompile(`export (` + shared.EnvReattach + `=)'(.*)'`)
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if match := line.FindStringSubmatch(lines.Text()); match != nil {
			return cmd, match[1] + match[2]
		}
	}
	t.Fatal("it does not say what to set")
	return nil, ""
}

// TestAPluginStartedByHandIsAttachedTo has two hosts, one after the other, use a
// plugin that neither has started, and neither ends.
func TestAPluginStartedByHandIsAttachedTo(t *testing.T) {
	t.Parallel()
	plugin, reattach := startDebugged(t, "clock")
	gateway := fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)[0])
	path := writeConfig(t, clockConfig(t, gateway, `timezone = "Asia/Tokyo"`))
	for range 2 {
		h := startHost(t, hostOptions{config: path, gateway: gateway, env: []string{reattach}})
		h.waitReady()
		if pid := h.status()["clock"].PID; pid != plugin.Process.Pid {
			t.Errorf("the host uses pid %d, want %d", pid, plugin.Process.Pid)
		}
		result, err := connectMCP(t, h.base+"/mcp/clock").CallTool(t.Context(), &mcp.CallToolParams{Name: "now"})
		if err != nil || !strings.Contains(fmt.Sprint(result.StructuredContent), "Asia/Tokyo") {
			t.Errorf("the clock says %+v, %v", result, err)
		}
		h.stop()
		if err := plugin.Process.Signal(syscall.Signal(0)); err != nil {
			t.Fatalf("the plugin is gone with its host: %v", err)
		}
	}
	_ = plugin.Process.Signal(syscall.SIGTERM)
	if err := plugin.Wait(); err != nil {
		t.Errorf("upon SIGTERM it ends with %v", err)
	}

	h := startHost(t, hostOptions{config: path, gateway: gateway, env: []string{reattach}})
	if status := h.waitState("clock", "backoff"); !strings.Contains(status.LastError, "PLUGHOST_REATTACH") {
		t.Errorf("with the plugin gone the error is %q", status.LastError)
	}
	h.stop()
}

func TestAHostSaysWhatItCannotAttachTo(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, "host {\n  listen = \"127.0.0.1:0\"\n}\n")
	for _, value := range []string{"clock", `{"clock":{}}`, `{"clock":{"pid":1,"address":"relative"}}`, `{"clock":{"pid":1,"address":"/x","more":1}}`} {
		cmd := exec.Command(filepath.Join(binaries, "plughost"), "run", "--config", path, "--state-dir", newStateDir(t))
		cmd.Env = append(cmd.Environ(), shared.EnvReattach+"="+value)
		output, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(output), "cannot read PLUGHOST_REATTACH") {
			t.Errorf("with %s: %v\n%s", value, err, output)
		}
	}
}
