package main

import (
	"testing"
	"time"
)

// at returns a clock that stands still at the given time (RFC 3339).
func at(t *testing.T, value string) clock {
	t.Helper()
	stopped, err := time.Parse(time.RFC3339, value)
	if err != nil {
		t.Fatal(err)
	}
	return func() time.Time { return stopped }
}

func TestNow(t *testing.T) {
	c := at(t, "2026-07-01T22:30:00Z")
	tests := []struct {
		name, zone string
		want       moment
	}{
		{
			"is in UTC by default", "",
			moment{"UTC", "2026-07-01T22:30:00Z", "Wednesday", "+00:00"},
		},
		{
			"may be tomorrow in the zone", "Europe/Berlin",
			moment{"Europe/Berlin", "2026-07-02T00:30:00+02:00", "Thursday", "+02:00"},
		},
		{
			"knows offsets of half hours", "Asia/Kolkata",
			moment{"Asia/Kolkata", "2026-07-02T04:00:00+05:30", "Thursday", "+05:30"},
		},
		{
			"knows negative offsets", "America/St_Johns",
			moment{"America/St_Johns", "2026-07-01T20:00:00-02:30", "Wednesday", "-02:30"},
		},
		{
			"takes a zone in any case, with spaces", "america/new york",
			moment{"America/New_York", "2026-07-01T18:30:00-04:00", "Wednesday", "-04:00"},
		},
		{
			"takes names that are not listed", "Etc/GMT+1",
			moment{"Etc/GMT+1", "2026-07-01T21:30:00-01:00", "Wednesday", "-01:00"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := c.now(nowInput{Zone: tt.zone})
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("now(%q) = %+v, want %+v", tt.zone, got, tt.want)
			}
		})
	}
}
