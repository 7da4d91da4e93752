//go:build unix

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// clockConfig is a configuration of the example clock, whose config block has
// this line.
func clockConfig(t *testing.T, gateway, line string) string {
	t.Helper()
	return fmt.Sprintf(`
host {
  listen = %q
}
service "mcp" "clock" {
  command = [%q]
  config {
    %s
  }
}
`, gateway, filepath.Join(binaries, "mcp-example"), line)
}

func TestAPluginIsConfiguredByItsConfigBlock(t *testing.T) {
	t.Parallel()
	gateway := fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)[0])
	path := writeConfig(t, clockConfig(t, gateway, `timezone = "Asia/Tokyo"`))
	rewrite := func(line string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(clockConfig(t, gateway, line)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h := startHost(t, hostOptions{config: path, gateway: gateway})
	h.waitReady()
	result, err := connectMCP(t, h.base+"/mcp/clock").CallTool(t.Context(), &mcp.CallToolParams{Name: "now"})
	if err != nil || result.IsError || !strings.Contains(fmt.Sprint(result.StructuredContent), "Asia/Tokyo") {
		t.Errorf("the clock says %+v, %v", result, err)
	}
	before := h.status()["clock"]
	for _, file := range []string{"environ", "cmdline"} {
		content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", before.PID, file))
		if strings.Contains(string(content), "Tokyo") {
			t.Errorf("the configuration is in %s", file)
		}
	}

	rewrite(`timezon = "Asia/Tokyo"`)
	stdout, stderr, code := plughost(t, "reload", "--state-dir", h.stateDir)
	if code != 1 || !strings.Contains(stderr, `Did you mean "timezone"?`) || !strings.Contains(stderr, "^^^^^^^") {
		t.Errorf("reload of an unknown setting: status %d\n%s%s", code, stdout, stderr)
	}
	if now := h.status()["clock"]; now.PID != before.PID {
		t.Error("a configuration that the plugin does not take changed something")
	}

	rewrite(`timezone = "Europe/Berlin"`)
	if stdout, stderr, code := plughost(t, "plan", "--state-dir", h.stateDir); code != 0 || !strings.Contains(stdout, "config.timezone") || strings.Contains(stdout, "Berlin") {
		t.Errorf("plan of another setting: status %d\n%s%s", code, stdout, stderr)
	}
	if _, stderr, code := plughost(t, "reload", "--state-dir", h.stateDir); code != 0 {
		t.Errorf("reload of another setting: status %d\n%s", code, stderr)
	}
	if now := h.waitState("clock", "ready"); now.PID == before.PID {
		t.Error("another setting did not restart the clock")
	}
	h.stop()

	rewrite(`timezone = ["UTC"]`)
	_, stderr, code = plughost(t, "run", "--config", path, "--state-dir", h.stateDir)
	if code != 1 || strings.Contains(stderr, "starting") {
		t.Errorf("run of a setting that the plugin refuses: status %d\n%s", code, stderr)
	}
}

func TestValidateAsksThePluginUnlessToldNotTo(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, clockConfig(t, "127.0.0.1:0", `zone = "UTC"`))
	stateDir := filepath.Join(t.TempDir(), "none")
	validate := func(args ...string) (string, int) {
		t.Helper()
		stdout, stderr, code := plughost(t, append([]string{"validate", "--config", path, "--state-dir", stateDir}, args...)...)
		return stdout + stderr, code
	}
	if text, code := validate(); code != 1 || !strings.Contains(text, "The plugin has no setting config.zone. There is timezone.") {
		t.Errorf("status %d\n%s", code, text)
	}
	if text, code := validate("--json"); code != 1 || !strings.Contains(text, `"summary": "Unknown setting"`) {
		t.Errorf("status %d\n%s", code, text)
	}
	if text, code := validate("--no-plugins"); code != 0 {
		t.Errorf("without plugins: status %d\n%s", code, text)
	}
	if _, err := os.Stat(stateDir); err == nil {
		t.Error("validate made a state directory")
	}

	if err := os.WriteFile(path, []byte("service \"mcp\" \"a\" {\n  command = [\"false\"]\n  config {\n  }\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, code := validate(); code != 0 || !strings.Contains(text, "Warning: Plugin could not be asked") {
		t.Errorf("a plugin that cannot be asked: status %d\n%s", code, text)
	}
}
