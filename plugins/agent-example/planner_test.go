package main

import (
	"maps"
	"strings"
	"testing"
)

func TestPlanCallsATool(t *testing.T) {
	now := func(zone string) map[string]any { return map[string]any{"zone": zone} }
	convert := func(time, from, to string) map[string]any {
		return map[string]any{"time": time, "from": from, "to": to}
	}
	days := func(from, to string) map[string]any { return map[string]any{"from": from, "to": to} }
	since := func(from string) map[string]any { return map[string]any{"from": from} }
	until := func(to string) map[string]any { return map[string]any{"to": to} }

	tests := []struct {
		question  string
		tool      string
		arguments map[string]any
	}{
		{"What time is it in Tokyo?", toolNow, now("Asia/Tokyo")},
		{"what's the time in new york right now, please?", toolNow, now("America/New_York")},
		{"What’s the current time in NYC?", toolNow, now("America/New_York")},
		{"time in Europe/Berlin", toolNow, now("Europe/Berlin")},
		{"  Time   in\n Berlin. ", toolNow, now("Europe/Berlin")},
		{"Tell me the time in America/Argentina/Buenos_Aires", toolNow, now("America/Argentina/Buenos_Aires")},
		{"Time in UTC", toolNow, now("UTC")},
		{"What time is it in São Paulo?", toolNow, now("America/Sao_Paulo")},
		{"What time is it now in sao paulo?", toolNow, now("America/Sao_Paulo")},

		{"Convert 09:30 from New York to London", toolConvert, convert("09:30", "America/New_York", "Europe/London")},
		{"convert 9:30 New York to London", toolConvert, convert("09:30", "America/New_York", "Europe/London")},
		{"Convert 9am from Paris into Tokyo time", toolConvert, convert("09:00", "Europe/Paris", "Asia/Tokyo")},
		{"Convert 12:15 am from Paris to Tokyo", toolConvert, convert("00:15", "Europe/Paris", "Asia/Tokyo")},
		{"Convert 12 PM from Paris to Tokyo", toolConvert, convert("12:00", "Europe/Paris", "Asia/Tokyo")},
		{"Convert 09:30 to London from New York", toolConvert, convert("09:30", "America/New_York", "Europe/London")},
		{"Convert 2026-03-29T02:30 from Europe/Berlin to UTC", toolConvert, convert("2026-03-29T02:30", "Europe/Berlin", "UTC")},
		{"Convert 2026-03-29 02:30 from Berlin to UTC", toolConvert, convert("2026-03-29T02:30", "Europe/Berlin", "UTC")},
		{"What is 15:00 in Berlin in Tokyo time?", toolConvert, convert("15:00", "Europe/Berlin", "Asia/Tokyo")},
		{"What is 3 pm Berlin time in Tokyo?", toolConvert, convert("15:00", "Europe/Berlin", "Asia/Tokyo")},
		{"When it is noon in Berlin, what time is it in Tokyo?", toolConvert, convert("12:00", "Europe/Berlin", "Asia/Tokyo")},
		{"What time is it in Tokyo when it is 15:00 in Berlin?", toolConvert, convert("15:00", "Europe/Berlin", "Asia/Tokyo")},
		{"midnight in London in Sydney", toolConvert, convert("00:00", "Europe/London", "Australia/Sydney")},

		{"How many days between 2026-01-01 and 2026-03-01?", toolDays, days("2026-01-01", "2026-03-01")},
		{"how many weeks from 2026-03-01 to 2026-01-01", toolDays, days("2026-03-01", "2026-01-01")},
		{"days until 2026-12-24", toolDays, until("2026-12-24")},
		{"How many days are left until 2026-12-24?", toolDays, until("2026-12-24")},
		{"How long till 2026-12-24?", toolDays, until("2026-12-24")},
		{"Days between today and 2026-12-24", toolDays, until("2026-12-24")},
		{"How many days since 2020-02-29?", toolDays, since("2020-02-29")},
	}
	for _, tt := range tests {
		t.Run(tt.question, func(t *testing.T) {
			got := makePlan([]string{tt.question})
			if got.call == nil {
				t.Fatalf("no call; asks %q", got.ask)
			}
			if got.call.tool != tt.tool || !maps.Equal(got.call.arguments, tt.arguments) {
				t.Errorf("calls %s with %v, want %s with %v", got.call.tool, got.call.arguments, tt.tool, tt.arguments)
			}
		})
	}
}

func TestPlanAsksForWhatIsMissing(t *testing.T) {
	tests := []struct {
		name, question, ask string
	}{
		{"the place", "What time is it?", "In which city"},
		{"the place, when told no more than the time", "time", "In which city"},
		{"a place that it knows", "What time is it in Atlantis?", `I do not know where "Atlantis" is`},
		{"the time", "Convert time from Berlin to Tokyo", "Which time?"},
		{"the first place", "Convert 09:30 to London", "From which city"},
		{"the second place", "Convert 09:30 from New York", "To which city"},
		{"a second place that it knows", "Convert 09:30 from New York to Atlantis", `where "Atlantis" is. To which city`},
		{"both dates", "How many days between Easter and Christmas?", "Between which dates?"},
		{"the date until which", "How many days until Christmas?", "To which date?"},
		{"the date since which", "How many days since Christmas?", "From which date?"},
		{"a date other than today", "How many days until today?", "to which date?"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := makePlan([]string{tt.question})
			if got.call != nil || !strings.Contains(got.ask, tt.ask) {
				t.Errorf("asks %q and calls %+v, want it to ask %q", got.ask, got.call, tt.ask)
			}
		})
	}
}

func TestPlanUsesWhatItAskedFor(t *testing.T) {
	tests := []struct {
		name      string
		messages  []string
		tool      string
		arguments map[string]any
	}{
		{
			"the place",
			[]string{"What time is it?", "Tokyo"},
			toolNow,
			map[string]any{"zone": "Asia/Tokyo"},
		},
		{
			"a place instead of an unknown one",
			[]string{"What time is it in Atlantis?", "in Athens, please"},
			toolNow,
			map[string]any{"zone": "Europe/Athens"},
		},
		{
			"a place at the second attempt",
			[]string{"What time is it?", "Atlantis", "Athens"},
			toolNow,
			map[string]any{"zone": "Europe/Athens"},
		},
		{
			"one thing after another",
			[]string{"Convert time", "9:30", "Berlin", "to Tokyo"},
			toolConvert,
			map[string]any{"time": "09:30", "from": "Europe/Berlin", "to": "Asia/Tokyo"},
		},
		{
			"a date",
			[]string{"How many days until Christmas?", "2026-12-24"},
			toolDays,
			map[string]any{"to": "2026-12-24"},
		},
		{
			"two dates",
			[]string{"How many days between Easter and Christmas?", "2026-04-05 and 2026-12-25"},
			toolDays,
			map[string]any{"from": "2026-04-05", "to": "2026-12-25"},
		},
		{
			"another question instead",
			[]string{"What time is it?", "How many days until 2026-12-24?"},
			toolDays,
			map[string]any{"to": "2026-12-24"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := makePlan(tt.messages)
			if got.call == nil {
				t.Fatalf("no call; asks %q", got.ask)
			}
			if got.call.tool != tt.tool || !maps.Equal(got.call.arguments, tt.arguments) {
				t.Errorf("calls %s with %v, want %s with %v", got.call.tool, got.call.arguments, tt.tool, tt.arguments)
			}
		})
	}
}

func TestPlanIsEmptyForWhatItDoesNotUnderstand(t *testing.T) {
	for _, message := range []string{
		"",
		"?",
		"Hello!",
		"What can you do?",
		"Meet me at 15:00",
		"Is it time for lunch?",
		"What days are you open?",
		"Tokyo",
	} {
		t.Run(message, func(t *testing.T) {
			if got := makePlan([]string{message}); got.call != nil || got.ask != "" {
				t.Errorf("asks %q and calls %+v, want neither", got.ask, got.call)
			}
		})
	}
}
