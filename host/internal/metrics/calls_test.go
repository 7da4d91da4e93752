package metrics

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/guard"
)

func TestCallsAreCountedAndTimed(t *testing.T) {
	m := New("1")
	m.Called("clock", "now", "ok", time.Second)
	m.Called("clock", "now", "ok", 3*time.Second)
	m.Called("clock", "now", "tool_error", time.Second)
	want(
		t, scrape(t, m),
		`plughost_tool_calls_total{outcome="ok",service="clock",tool="now"}`, "2",
		`plughost_tool_calls_total{outcome="tool_error",service="clock",tool="now"}`, "1",
		`plughost_tool_call_duration_seconds_count{service="clock",tool="now"}`, "3",
		`plughost_tool_call_duration_seconds_sum{service="clock",tool="now"}`, "5",
	)
	m.Forget(clock)
	for name := range scrape(t, m) {
		if strings.Contains(name, "clock") {
			t.Errorf("%s is left of a service that was forgotten", name)
		}
	}
}

// However many tools a plugin has, the series are bounded.
func TestToolsAreToldApartUpToABound(t *testing.T) {
	m := New("1")
	for i := range maxTools + 100 {
		m.Called("many", fmt.Sprintf("tool-%d", i), "ok", 0)
	}
	m.Called("many", "tool-0", "ok", 0)
	m.Called("clock", "now", "ok", 0)
	series := scrape(t, m)
	want(
		t, series,
		`plughost_tool_calls_total{outcome="ok",service="many",tool="tool-0"}`, "2",
		`plughost_tool_calls_total{outcome="ok",service="many",tool="(other)"}`, "100",
		`plughost_tool_calls_total{outcome="ok",service="clock",tool="now"}`, "1",
	)
	counted := 0
	for name := range series {
		if strings.HasPrefix(name, "plughost_tool_calls_total") {
			counted++
		}
	}
	if counted != maxTools+2 {
		t.Errorf("there are %d series", counted)
	}
}

func TestSessionsAreCountedAtAScrape(t *testing.T) {
	m := New("1")
	count := map[string]int{"": 3, "clock": 2}
	m.ObserveSessions(func() map[string]int { return count })
	want(t, scrape(t, m), `plughost_mcp_sessions{service=""}`, "3", `plughost_mcp_sessions{service="clock"}`, "2")
	delete(count, "clock")
	if _, there := scrape(t, m)[`plughost_mcp_sessions{service="clock"}`]; there {
		t.Error("a service that is gone has sessions")
	}
}

func TestRequestsAreCounted(t *testing.T) {
	m := New("1")
	m.Served(guard.Exchange{Service: clock, Code: 200, Received: 3, Sent: 5})
	m.Served(guard.Exchange{Service: clock, Code: 404, Received: 1, Sent: 1})
	m.Served(guard.Exchange{Service: config.Ref{Kind: config.KindMCP}, Code: 200})
	m.Refused(guard.ReasonOrigin)
	want(
		t, scrape(t, m),
		`plughost_gateway_requests_total{code="200",kind="mcp",service="clock"}`, "1",
		`plughost_gateway_requests_total{code="404",kind="mcp",service="clock"}`, "1",
		`plughost_gateway_requests_total{code="200",kind="mcp",service=""}`, "1",
		`plughost_gateway_received_bytes_total{kind="mcp",service="clock"}`, "4",
		`plughost_gateway_sent_bytes_total{kind="mcp",service="clock"}`, "6",
		`plughost_gateway_refused_total{reason="origin"}`, "1",
		`plughost_gateway_refused_total{reason="host"}`, "0",
	)
	m.Forget(clock)
	for name := range scrape(t, m) {
		if strings.Contains(name, "clock") {
			t.Errorf("%s is left of a service that was forgotten", name)
		}
	}
}
