//go:build unix

package test

import (
	"syscall"
	"testing"

	"github.com/plughost/plughost/probes"
)

func TestPluginThatStopsAnsweringIsReplaced(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, fault("f", `
  health {
    interval = "200ms"
    timeout  = "500ms"
    failures = 3
  }
  stop {
    grace = "500ms"
  }
  restart {
    delay = "10ms"
  }
`), fault("other", ""))
	h.waitReady()
	before, other := h.status()["f"], h.status()["other"]
	process, err := probes.Open(before.PID)
	if err != nil {
		t.Fatal(err)
	}
	defer process.Close()
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	h.waitOutput("unhealthy: a health check failed: no answer within 500ms")
	eventually(t, "there is a new instance", func() bool {
		s := h.tryStatus()["f"]
		return s.State == "ready" && s.Instance != before.Instance
	})
	if !process.Exited() {
		t.Error("the process that was stopped is still there")
	}
	session := connectMCP(t, h.base+"/mcp/f")
	if got, want := callTool[struct{ PID int }](t, session, "pid", map[string]any{}).PID, h.status()["f"].PID; got != want {
		t.Errorf("the call was served by pid %d, want %d", got, want)
	}
	if after := h.status()["other"]; after.Instance != other.Instance {
		t.Error("another service was replaced too")
	}
}
