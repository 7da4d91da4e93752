package main

import (
	"strings"
	"testing"
)

func TestMeeting(t *testing.T) {
	c := at(t, "2026-03-01T12:00:00Z")
	tests := []struct {
		name string
		in   meetingInput
		want []string // parts of the text
	}{
		{
			"names the hours that all work",
			meetingInput{zones: "Europe/Berlin, America/New_York", date: "2026-03-02"},
			[]string{
				"60 minutes on Monday, 2026-03-02. Its people work 09:00-17:00",
				"- Europe/Berlin (UTC+01:00): 2026-03-02 08:00 to 2026-03-02 16:00 UTC",
				"- America/New_York (UTC-05:00): 2026-03-02 14:00 to 2026-03-02 22:00 UTC",
				"All of them work from 2026-03-02 14:00 to 2026-03-02 16:00 UTC.",
			},
		},
		{
			"says when nobody's hours meet",
			meetingInput{zones: "Asia/Tokyo,America/Los_Angeles", date: "2026-03-02"},
			[]string{"At no time do all of them work for that long"},
		},
		{
			"says when the meeting is too long",
			meetingInput{zones: "Europe/Berlin,America/New_York", date: "2026-03-02", duration: "2h30m"},
			[]string{"meeting of 150 minutes", "At no time do all of them work for that long"},
		},
		{
			"is tomorrow by default",
			meetingInput{zones: "UTC"},
			[]string{"on Monday, 2026-03-02"},
		},
		{
			"takes other hours",
			meetingInput{zones: "UTC", hours: "7:30 - 12:00"},
			[]string{"- UTC (UTC+00:00): 2026-03-02 07:30 to 2026-03-02 12:00 UTC"},
		},
		{
			"uses the offset of that day",
			meetingInput{zones: "Europe/Berlin", date: "2026-07-01"},
			[]string{"- Europe/Berlin (UTC+02:00): 2026-07-01 07:00"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := c.meeting(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("want %q in:\n%s", want, got)
				}
			}
		})
	}
}

func TestMeetingRefusesBadArguments(t *testing.T) {
	c := at(t, "2026-03-01T12:00:00Z")
	tests := []struct {
		name string
		in   meetingInput
		want string
	}{
		{"no zones", meetingInput{zones: " , "}, "argument zones is empty"},
		{"an unknown zone", meetingInput{zones: "UTC,Tokyo"}, "perhaps Asia/Tokyo"},
		{"a date that is none", meetingInput{zones: "UTC", date: "tomorrow"}, "argument date"},
		{"hours without an end", meetingInput{zones: "UTC", hours: "09:00"}, "argument hours"},
		{"hours that end before they start", meetingInput{zones: "UTC", hours: "17:00-09:00"}, "a later end"},
		{"a duration without a unit", meetingInput{zones: "UTC", duration: "60"}, "such as 45m"},
		{"a negative duration", meetingInput{zones: "UTC", duration: "-1h"}, "a minute or more"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text, err := c.meeting(tt.in)
			if err == nil {
				t.Fatalf("got a text, want an error:\n%s", text)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want it to say %q", err, tt.want)
			}
		})
	}
}
