package main

import "github.com/plughost/plughost/shared/pluginconfig"

// settings is what the config block of the service can say.
type settings struct {
	Timezone string `json:"timezone" jsonschema:"IANA name of the time zone that is meant where none is given"`
}

func defaultSettings() *settings { return &settings{Timezone: "UTC"} }

// Validate is called when the settings are filled in.
func (s *settings) Validate() error {
	if _, err := loadZone(s.Timezone); err != nil {
		return &pluginconfig.FieldError{Path: []string{"timezone"}, Err: err}
	}
	return nil
}

// now is the clock's, with the configured zone where none is given.
func (s *settings) now(c clock) func(nowInput) (moment, error) {
	return func(in nowInput) (moment, error) {
		if in.Zone == "" {
			in.Zone = s.Timezone
		}
		return c.now(in)
	}
}
