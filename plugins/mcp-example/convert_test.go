package main

import (
	"strings"
	"testing"
	"time"
)

func TestConvert(t *testing.T) {
	c := at(t, "2026-03-01T12:00:00Z")
	tests := []struct {
		name           string
		time, from, to string
		wantFrom       string
		wantTo         string
		wantWall       string
		wantNote       string // part of it
	}{
		{
			"takes a time with a date",
			"2026-03-01T09:30", "America/New_York", "Europe/London",
			"2026-03-01T09:30:00-05:00", "2026-03-01T14:30:00Z", wallOnce, "",
		},
		{
			"takes a space for the T, and seconds",
			"2026-03-01 09:30:15", "UTC", "Asia/Tokyo",
			"2026-03-01T09:30:15Z", "2026-03-01T18:30:15+09:00", wallOnce, "",
		},
		{
			"takes a time alone for today",
			"15:00", "Europe/Berlin", "Asia/Tokyo",
			"2026-03-01T15:00:00+01:00", "2026-03-01T23:00:00+09:00", wallOnce, "",
		},
		{
			"takes today's date from the first zone",
			"00:30", "Pacific/Kiritimati", "UTC",
			"2026-03-02T00:30:00+14:00", "2026-03-01T10:30:00Z", wallOnce, "",
		},
		{
			"takes a time with an offset for that very moment",
			"2026-03-01T12:00:00Z", "Europe/Berlin", "Asia/Tokyo",
			"2026-03-01T13:00:00+01:00", "2026-03-01T21:00:00+09:00", wallOnce, "",
		},
		{
			"says that a time skipped in spring does not exist",
			"2026-03-29T02:30", "Europe/Berlin", "UTC",
			"2026-03-29T03:30:00+02:00", "2026-03-29T01:30:00Z", wallNever,
			"2026-03-29 02:30:00 does not exist in Europe/Berlin",
		},
		{
			"says so west of Greenwich too",
			"2026-03-08T02:30", "America/Los_Angeles", "UTC",
			"2026-03-08T03:30:00-07:00", "2026-03-08T10:30:00Z", wallNever,
			"does not exist in America/Los_Angeles",
		},
		{
			"knows the last moment before a gap",
			"2026-03-29T01:59:59", "Europe/Berlin", "UTC",
			"2026-03-29T01:59:59+01:00", "2026-03-29T00:59:59Z", wallOnce, "",
		},
		{
			"knows the first moment after a gap",
			"2026-03-29T03:00", "Europe/Berlin", "UTC",
			"2026-03-29T03:00:00+02:00", "2026-03-29T01:00:00Z", wallOnce, "",
		},
		{
			"says that a time repeated in autumn comes twice",
			"2026-10-25T02:30", "Europe/Berlin", "America/New_York",
			"2026-10-25T02:30:00+02:00", "2026-10-24T20:30:00-04:00", wallTwice,
			"the second, 2026-10-25T02:30:00+01:00, is 2026-10-24T21:30:00-04:00 in America/New_York",
		},
		{
			"knows the last moment before an overlap",
			"2026-10-25T01:59:59", "Europe/Berlin", "UTC",
			"2026-10-25T01:59:59+02:00", "2026-10-24T23:59:59Z", wallOnce, "",
		},
		{
			"knows the first moment after an overlap",
			"2026-10-25T03:00", "Europe/Berlin", "UTC",
			"2026-10-25T03:00:00+01:00", "2026-10-25T02:00:00Z", wallOnce, "",
		},
		{
			"says that a day skipped at the date line does not exist",
			"2011-12-30T12:00", "Pacific/Apia", "UTC",
			"2011-12-31T12:00:00+14:00", "2011-12-30T22:00:00Z", wallNever,
			"does not exist in Pacific/Apia",
		},
		{
			"knows changes of half an hour",
			"2026-04-05T01:45", "Australia/Lord_Howe", "UTC",
			"2026-04-05T01:45:00+11:00", "2026-04-04T14:45:00Z", wallTwice,
			"the second, 2026-04-05T01:45:00+10:30",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := c.convert(convertInput{Time: tt.time, From: tt.from, To: tt.to})
			if err != nil {
				t.Fatal(err)
			}
			if got.From.Time != tt.wantFrom || got.To.Time != tt.wantTo || got.Wall != tt.wantWall {
				t.Errorf("from %s to %s, %s; want from %s to %s, %s",
					got.From.Time, got.To.Time, got.Wall, tt.wantFrom, tt.wantTo, tt.wantWall)
			}
			if !strings.Contains(got.Note, tt.wantNote) || (tt.wantNote == "") != (got.Note == "") {
				t.Errorf("note %q, want %q in it", got.Note, tt.wantNote)
			}
		})
	}
}

func TestConvertRefusesBadArguments(t *testing.T) {
	c := at(t, "2026-03-01T12:00:00Z")
	tests := []struct {
		name string
		in   convertInput
		want string
	}{
		{"no time", convertInput{"", "UTC", "UTC"}, "write 2026-03-01T15:04"},
		{"an hour that is none", convertInput{"25:00", "UTC", "UTC"}, "write 2026-03-01T15:04"},
		{"a day that is none", convertInput{"2026-02-30T10:00", "UTC", "UTC"}, "write 2026-03-01T15:04"},
		{"a year that has no room for the other zone's", convertInput{"9999-12-31T23:00", "UTC", "Asia/Tokyo"}, "year from 1 to 9998"},
		{"a first zone that is none", convertInput{"10:00", "Europe/Berln", "UTC"}, "argument from: unknown time zone"},
		{"a second zone that is none", convertInput{"10:00", "UTC", "Europe/Berln"}, "argument to: unknown time zone"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, err := c.convert(tt.in)
			if err == nil {
				t.Fatalf("got %+v, want an error", out)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want it to say %q", err, tt.want)
			}
		})
	}
}

// What clocks show at each moment of a year must resolve to that moment, or,
// if they show it twice, to one that shows the same.
func TestResolveWallIsTheInverseOfWhatClocksShow(t *testing.T) {
	for _, name := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kathmandu"} {
		zone, err := loadZone(name)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for moment := start; moment.Year() == 2026; moment = moment.Add(15 * time.Minute) {
			wall := moment.Add(offsetAt(moment, zone))
			got := resolveWall(wall, zone)
			switch got.kind {
			case wallOnce:
				if !got.time.Equal(moment) {
					t.Fatalf("%s: %s resolved to %s, want %s", name, wall, got.time, moment)
				}
			case wallTwice:
				if second := got.time.Add(got.shift); !got.time.Equal(moment) && !second.Equal(moment) {
					t.Fatalf("%s: %s resolved to %s and %s, want one of them to be %s", name, wall, got.time, second, moment)
				}
			default:
				t.Fatalf("%s: clocks show %s, but it comes %s", name, wall, got.kind)
			}
		}
	}
}
