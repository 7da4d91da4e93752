//go:build unix

package test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// checkedPlugin is what plugin check prints with --json.
type checkedPlugin struct {
	Kind     string
	Findings []struct{ Check, Outcome, Found, Advice string }
}

func TestTheExamplesKeepThePromisesOfPlugins(t *testing.T) {
	t.Parallel()
	for binary, kind := range map[string]string{"mcp-example": "mcp", "agent-example": "agent"} {
		t.Run(binary, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, code := plughost(t, "plugin", "check", "--strict", "--json", filepath.Join(binaries, binary))
			var report checkedPlugin
			if err := json.Unmarshal([]byte(stdout), &report); err != nil {
				t.Fatalf("%v\n%s%s", err, stdout, stderr)
			}
			if code != 0 || report.Kind != kind || len(report.Findings) < 11 {
				t.Errorf("exit status %d, of kind %q, with %+v", code, report.Kind, report.Findings)
			}
		})
	}
}

func TestWhatIsNoPluginFailsTheCheck(t *testing.T) {
	t.Parallel()
	stdout, _, code := plughost(t, "plugin", "check", "false")
	if code != 1 || !strings.Contains(stdout, "FAIL  handshake") || !strings.Contains(stdout, "0 good, 0 warnings, 1 failed") {
		t.Errorf("exit status %d\n%s", code, stdout)
	}
	if _, stderr, code := plughost(t, "plugin", "check", "no-such-7f3"); code != 1 || !strings.Contains(stderr, "cannot find the plugin") {
		t.Errorf("exit status %d\n%s", code, stderr)
	}
	if _, _, code := plughost(t, "plugin", "check"); code != 2 {
		t.Errorf("without a plugin: exit status %d", code)
	}
}
