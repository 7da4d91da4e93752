package main

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/events"
	"github.com/plughost/plughost/host/internal/logs"
	"github.com/plughost/plughost/host/internal/supervise"
)

func TestParseSince(t *testing.T) {
	now := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"0s":                        now,
		"10m":                       now.Add(-10 * time.Minute),
		"1h30m":                     now.Add(-90 * time.Minute),
		"2026-01-01T00:00:00Z":      time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		"2026-01-01T00:00:00.5Z":    time.Date(2026, 1, 1, 0, 0, 0, 5e8, time.UTC),
		"2026-01-01T02:00:00+02:00": time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		if got, err := parseSince(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "10", "-10m", "yesterday", "2026-01-01"} {
		if got, err := parseSince(text, now); err == nil || !strings.Contains(err.Error(), "10m") {
			t.Errorf("%q is %v, %v; want an error that says how it is written", text, got, err)
		}
	}
}

func TestServicesHaveColoursOfTheirOwn(t *testing.T) {
	a, b := config.Ref{Kind: config.KindMCP, Name: "a"}, config.Ref{Kind: config.KindAgent, Name: "longer"}
	for _, test := range []struct {
		color bool
		want  []string
	}{
		{false, []string{"mcp.a        | ", "agent.longer | ", "mcp.a        | "}},
		{true, []string{"\x1b[36mmcp.a        |\x1b[0m ", "\x1b[33magent.longer |\x1b[0m ", "\x1b[36mmcp.a        |\x1b[0m "}},
	} {
		var out bytes.Buffer
		p := &logPrinter{out: bufio.NewWriter(&out), color: test.color}
		p.services([]config.Ref{a, b})
		for _, ref := range []config.Ref{a, b, a} {
			if err := p.print(logs.Entry{Time: time.Now(), Service: ref.String(), Message: "\x1b[31m"}); err != nil {
				t.Fatal(err)
			}
		}
		_ = p.out.Flush()
		for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
			if !strings.HasPrefix(line, test.want[i]) || strings.Contains(line, "\x1b[31m") {
				t.Errorf("colour %v: %q, want %q first and nothing of a plugin's", test.color, line, test.want[i])
			}
		}
	}
}

func TestEventsForPeople(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 4, 5, 67e6, time.Local)
	tests := []struct {
		name  string
		event events.Event
		color bool
		want  string
	}{
		{
			"a transition",
			events.Event{Type: events.ServiceChanged, Service: "mcp.a", PID: 7, From: supervise.Ready, To: supervise.Stopping, Cause: "c\n\x1b", Error: "old"},
			false, "mcp.a ready -> stopping (pid 7): c \\x1b",
		},
		{
			"a failure",
			events.Event{Type: events.ServiceChanged, Service: "mcp.a", From: supervise.Starting, To: supervise.Backoff, Cause: "c", NextTry: at.Add(time.Second)},
			true, "mcp.a \x1b[33mstarting -> backoff\x1b[0m: c; the next try is in 1s",
		},
		{"of the host", events.Event{Type: events.HostReady, PID: 1, Cause: "c"}, true, "\x1b[32mhost.ready\x1b[0m (pid 1): c"},
		{"with an error", events.Event{Type: events.RegistryMoved, Cause: "c", Error: "e"}, false, "registry.moved: c: e"},
	}
	for _, test := range tests {
		test.event.Time = at
		var out strings.Builder
		if err := writeEvent(&out, test.event, test.color); err != nil || out.String() != "2026-01-02 15:04:05.067 "+test.want+"\n" {
			t.Errorf("%s: %q, %v; want %q", test.name, out.String(), err, test.want)
		}
	}
}
