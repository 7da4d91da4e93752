package main

import (
	"strings"
	"testing"
)

func TestDaysBetween(t *testing.T) {
	c := at(t, "2026-03-01T23:59:00Z")
	tests := []struct {
		name              string
		from, to          string
		days, weeks, rest int
		summary           string
	}{
		{
			"counts days and weeks", "2026-01-01", "2026-03-01",
			59, 8, 3, "2026-03-01 is 59 days (8 weeks and 3 days) after 2026-01-01",
		},
		{
			"is negative for reversed dates", "2026-03-01", "2026-01-01",
			-59, -8, -3, "2026-01-01 is 59 days (8 weeks and 3 days) before 2026-03-01",
		},
		{"is zero for the same day", "2026-03-01", "2026-03-01", 0, 0, 0, "2026-03-01 is the same day"},
		{"counts the day of a leap year", "2024-02-28", "2024-03-01", 2, 0, 2, "2024-03-01 is 2 days after 2024-02-28"},
		{"counts none in other years", "2026-02-28", "2026-03-01", 1, 0, 1, "2026-03-01 is 1 day after 2026-02-28"},
		{"knows that 1900 was no leap year", "1900-02-28", "1900-03-01", 1, 0, 1, "1900-03-01 is 1 day after 1900-02-28"},
		{"knows that 2000 was one", "2000-02-28", "2000-03-01", 2, 0, 2, "2000-03-01 is 2 days after 2000-02-28"},
		{"is not misled by summer time", "2026-03-28", "2026-03-30", 2, 0, 2, "2026-03-30 is 2 days after 2026-03-28"},
		{"names whole weeks alone", "2026-03-01", "2026-03-15", 14, 2, 0, "2026-03-15 is 14 days (2 weeks) after 2026-03-01"},
		{
			"reaches beyond 292 years", "0001-01-01", "9999-12-31",
			3652058, 521722, 4, "9999-12-31 is 3652058 days (521722 weeks and 4 days) after 0001-01-01",
		},
		{"counts from today by default", "", "2026-03-08", 7, 1, 0, "2026-03-08 is 7 days (1 week) after 2026-03-01"},
		{"counts to today by default", "2026-02-28", "", 1, 0, 1, "2026-03-01 is 1 day after 2026-02-28"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := c.daysBetween(daysInput{From: tt.from, To: tt.to})
			if err != nil {
				t.Fatal(err)
			}
			if got.Days != tt.days || got.Weeks != tt.weeks || got.Rest != tt.rest {
				t.Errorf("%d days, %d weeks and %d; want %d, %d and %d",
					got.Days, got.Weeks, got.Rest, tt.days, tt.weeks, tt.rest)
			}
			if got.Summary != tt.summary {
				t.Errorf("summary %q, want %q", got.Summary, tt.summary)
			}
		})
	}
}

func TestDaysBetweenRefusesBadArguments(t *testing.T) {
	c := at(t, "2026-03-01T12:00:00Z")
	tests := []struct{ name, from, to, want string }{
		{"a first date that is none", "2026-02-29", "2026-03-01", `argument from is "2026-02-29", which is no date: write YYYY-MM-DD`},
		{"a second date in another form", "2026-03-01", "1 April", `argument to is "1 April"`},
		{"no dates at all", "", "", "give the argument from, to, or both"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, err := c.daysBetween(daysInput{From: tt.from, To: tt.to})
			if err == nil {
				t.Fatalf("got %+v, want an error", out)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want it to say %q", err, tt.want)
			}
		})
	}
}
