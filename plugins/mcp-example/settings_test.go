package main

import (
	"errors"
	"testing"

	"github.com/plughost/plughost/shared/pluginconfig"
)

func TestTheConfiguredZoneIsMeantWhereNoneIsGiven(t *testing.T) {
	s := settings{Timezone: "Asia/Tokyo"}
	now := s.now(at(t, "2026-03-01T12:00:00Z"))
	for zone, want := range map[string]string{"": "Asia/Tokyo", "Europe/Berlin": "Europe/Berlin"} {
		if got, err := now(nowInput{Zone: zone}); err != nil || got.Zone != want {
			t.Errorf("in %q: %+v, %v; want %s", zone, got, err, want)
		}
	}
}

func TestAZoneThatThereIsNotIsRefused(t *testing.T) {
	if err := defaultSettings().Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
	var field *pluginconfig.FieldError
	if err := (&settings{Timezone: "Asia/Tokio"}).Validate(); !errors.As(err, &field) || field.Path[0] != "timezone" {
		t.Errorf("a misspelt zone: %v", err)
	}
}
