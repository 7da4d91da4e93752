package metrics

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/events"
	"github.com/plughost/plughost/host/internal/logs"
	"github.com/plughost/plughost/host/internal/supervise"
)

var clock = config.Ref{Kind: config.KindMCP, Name: "clock"}

// scrape is what a scrape says, a line for each series.
func scrape(t *testing.T, m *Metrics) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	series := make(map[string]string)
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndex(line, " ")
		series[line[:at]] = strings.TrimSpace(line[at:])
	}
	return series
}

func want(t *testing.T, series map[string]string, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if got, ok := series[pairs[i]]; got != pairs[i+1] {
			t.Errorf("%s is %q (there: %v), want %q", pairs[i], got, ok, pairs[i+1])
		}
	}
}

// pass has a service go through states, a second after another.
func pass(m *Metrics, service config.Ref, states ...supervise.State) {
	for i := 1; i < len(states); i++ {
		m.Watch(supervise.Change{
			Status: supervise.Status{Service: service, State: states[i], Since: time.Unix(int64(1000+i), 0)},
			From:   states[i-1],
		})
	}
}

func TestTransitionsAreCountedAndTimed(t *testing.T) {
	m := New("1.2.3")
	pass(m, clock, supervise.Stopped, supervise.Starting, supervise.Ready, supervise.Unhealthy, supervise.Ready,
		supervise.Stopping, supervise.Backoff, supervise.Starting, supervise.Backoff, supervise.Starting, supervise.Stopping, supervise.Stopped)
	series := scrape(t, m)
	const labels = `{kind="mcp",service="clock"`
	want(
		t, series,
		"plughost_service_transitions_total"+labels+`,state="starting"}`, "3",
		"plughost_service_transitions_total"+labels+`,state="ready"}`, "2",
		"plughost_service_transitions_total"+labels+`,state="stopped"}`, "1",
		// Of three starts one got there; the time is that of its first ready.
		"plughost_service_start_duration_seconds_count"+labels+"}", "1",
		"plughost_service_start_duration_seconds_sum"+labels+"}", "1",
		"plughost_service_stop_duration_seconds_count"+labels+"}", "2",
		"plughost_service_stop_duration_seconds_sum"+labels+"}", "2",
		`plughost_build_info{version="1.2.3"}`, "1",
	)
	for _, name := range []string{"go_goroutines", "process_cpu_seconds_total"} {
		if series[name] == "" {
			t.Errorf("there is no %s", name)
		}
	}
	for name := range series {
		if strings.HasPrefix(name, "promhttp") {
			t.Errorf("there is %s", name)
		}
	}

	m.Forget(clock)
	for name := range scrape(t, m) {
		if strings.Contains(name, "clock") {
			t.Errorf("%s is left of a service that was forgotten", name)
		}
	}
}

func TestWhatIsAskedForAtAScrape(t *testing.T) {
	m := New("1")
	status := supervise.Status{Service: clock, State: supervise.Ready, Restarts: 2, HealthFailures: 3}
	statuses := []supervise.Status{status}
	m.Observe(func() []supervise.Status { return statuses }, func(ref config.Ref) logs.Counts {
		if ref != clock {
			t.Errorf("asked was for the log of %s", ref)
		}
		return logs.Counts{Lines: 4, Bytes: 5, Lost: 6}
	})
	const labels = `{kind="mcp",service="clock"`
	series := scrape(t, m)
	want(
		t, series,
		"plughost_service_restarts_total"+labels+"}", "2",
		"plughost_service_health_check_failures_total"+labels+"}", "3",
		"plughost_service_log_lines_total"+labels+"}", "4",
		"plughost_service_log_bytes_total"+labels+"}", "5",
		"plughost_service_log_lines_lost_total"+labels+"}", "6",
	)
	for _, state := range states() {
		value := "0"
		if state == supervise.Ready {
			value = "1"
		}
		want(t, series, fmt.Sprintf(`plughost_service_state%s,state=%q}`, labels, state), value)
	}

	statuses = nil
	for name := range scrape(t, m) {
		if strings.Contains(name, "clock") {
			t.Errorf("%s is left of a service that is gone", name)
		}
	}
}

func TestEventsAreCounted(t *testing.T) {
	m := New("1")
	for _, kind := range []events.Type{events.OrphanReclaimed, events.OrphanReclaimed, events.ProcessLeftAlone, events.HostReady} {
		m.Count(events.Event{Type: kind, Service: "mcp.unknown"})
	}
	m.PortHeld(clock)
	series := scrape(t, m)
	want(
		t, series,
		"plughost_orphans_reclaimed_total", "2",
		"plughost_processes_left_alone_total", "1",
		`plughost_service_port_held_total{kind="mcp",service="clock"}`, "1",
	)
	for name := range series {
		if strings.Contains(name, "unknown") {
			t.Errorf("%s is of a service that is not configured", name)
		}
	}
}
