package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestListedZonesCanBeLoaded(t *testing.T) {
	if len(zoneNames) < 400 || !slices.IsSorted(zoneNames) || !slices.Contains(zoneNames, "UTC") {
		t.Errorf("the list of %d zones is short, unsorted or without UTC", len(zoneNames))
	}
	for _, name := range zoneNames {
		if _, err := time.LoadLocation(name); err != nil {
			t.Error(err)
		}
	}
}

func TestUnknownZoneIsAnErrorThatSaysWhatToDo(t *testing.T) {
	tests := []struct {
		name, zone string
		want       string // part of the error
	}{
		{"a typing error", "Europe/Berln", "perhaps Europe/Berlin"},
		{"a city without its region", "Tokyo", "perhaps Asia/Tokyo"},
		{"a city of two words", "New York", "perhaps America/New_York"},
		{"the wrong region", "Asia/Sydney", "Australia/Sydney"},
		{"nothing like a zone", "the moon", "such as Europe/Berlin; the resource clock://zones"},
		{"a single letter", "x", "such as Europe/Berlin"},
		{"this machine's zone", "Local", "such as Europe/Berlin"},
		{"no name", " ", "such as Europe/Berlin"},
		{"a path out of the zones", "../../etc/passwd", "unknown time zone"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			zone, err := loadZone(tt.zone)
			if err == nil {
				t.Fatalf("loadZone(%q) = %v, want an error", tt.zone, zone)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("loadZone(%q): %v, want it to say %q", tt.zone, err, tt.want)
			}
		})
	}
}

func TestEditDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "", 3},
		{"berlin", "berlin", 0},
		{"berln", "berlin", 1},
		{"berlxn", "berlin", 1},
		{"kitten", "sitting", 3},
	}
	for _, tt := range tests {
		if got := editDistance(tt.a, tt.b); got != tt.want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
