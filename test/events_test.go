//go:build unix

package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// event is what `plughost events --json` says, as far as the tests look.
type event struct {
	ID, Type, Service, Instance, From, To, Cause, Proof, Error string
	PID, Port, Restarts                                        int
	Count                                                      int
}

func readEvents(t *testing.T, printed string) []event {
	t.Helper()
	var all []event
	for line := range strings.Lines(printed) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		all = append(all, e)
	}
	return all
}

// TestEventsAndMetricsTellWhatHappens has a host find an orphan, a damaged
// registry and a stranger on a port, and then go through its life.
func TestEventsAndMetricsTellWhatHappens(t *testing.T) {
	port := freePorts(t, 1)[0]
	f, held := fault("f", ""), fault("held", fmt.Sprintf("\n  port = %d\n  restart {\n    policy = \"never\"\n  }\n", port))
	first := startHost(t, faultConfig(t, hostOptions{stateDir: newStateDir(t), outliveHost: true}, f))
	first.waitReady()
	old := first.status()["f"]
	first.kill()
	registries, err := filepath.Glob(filepath.Join(first.stateDir, "registry*"))
	if err != nil || len(registries) != 1 {
		t.Fatalf("the registries are %v, %v", registries, err)
	}
	if err := os.WriteFile(registries[0], bytes.Repeat([]byte("garbage "), 4<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	stranger := startHelper(t, "listen", fmt.Sprint(port))

	h := startFaults(t, hostOptions{stateDir: first.stateDir}, f, held)
	h.waitState("f", "ready")
	h.waitState("held", "failed")
	follower := h.lookOn(t, "events", "-f", "f")
	follower.sees("mcp.f starting -> ready")
	status := h.status()["f"]

	stdout, stderr, code := plughost(t, "events", "--json", "--state-dir", h.stateDir)
	if code != 0 {
		t.Fatalf("plughost events ends with status %d: %s", code, stderr)
	}
	all := readEvents(t, stdout)
	for _, want := range []event{
		{Type: "registry.moved"},
		{Type: "host.started", PID: h.cmd.Process.Pid},
		{Type: "orphan.reclaimed", Service: "mcp.f", Instance: old.Instance, Proof: "marker", Count: 1},
		{Type: "port.held", Service: "mcp.held", Port: port, PID: stranger.Process.Pid},
		{Type: "service.changed", Service: "mcp.f", From: "stopped", To: "starting"},
		{Type: "service.changed", Service: "mcp.f", From: "starting", To: "ready", Instance: status.Instance, PID: status.PID},
		{Type: "service.changed", Service: "mcp.held", From: "starting", To: "failed"},
	} {
		found := slices.ContainsFunc(all, func(e event) bool {
			if e.ID == "" || e.Cause == "" {
				t.Errorf("the event %+v says too little", e)
			}
			e.ID, e.Cause, e.Error = "", "", ""
			if e.Service == "mcp.held" && e.To != "" {
				e.Port = 0
			}
			return e == want
		})
		if !found {
			t.Errorf("no event is %+v in\n%s", want, stdout)
		}
	}
	if !alive(stranger.Process.Pid) {
		t.Error("the stranger is gone")
	}

	_, metrics := get(t, h.base+"/metrics")
	for _, want := range []string{
		"plughost_orphans_reclaimed_total 1",
		`plughost_service_state{kind="mcp",service="f",state="ready"} 1`,
		`plughost_service_state{kind="mcp",service="held",state="failed"} 1`,
		`plughost_service_transitions_total{kind="mcp",service="f",state="ready"} 1`,
		`plughost_service_start_duration_seconds_count{kind="mcp",service="f"} 1`,
		`plughost_service_port_held_total{kind="mcp",service="held"} 1`,
		`plughost_service_log_lines_lost_total{kind="mcp",service="f"} 0`,
		"process_start_time_seconds ",
		"go_goroutines ",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics do not say %s", want)
		}
	}

	plughost(t, "restart", "f", "--state-dir", h.stateDir)
	follower.sees(fmt.Sprintf("mcp.f ready -> stopping (pid %d): restart was asked", status.PID))
	h.stop()
	follower.sees("mcp.f stopping -> stopped: it was stopped")
	follower.ends()
	if text := follower.output.String(); strings.Contains(text, "held") || strings.Contains(text, "host.") {
		t.Errorf("it was to follow one service alone, and saw\n%s", text)
	}
	if _, stderr, code := plughost(t, "events", "--state-dir", h.stateDir); code != 1 || !strings.Contains(stderr, "no host is running") {
		t.Errorf("without a host it ends with status %d: %s", code, stderr)
	}
}
