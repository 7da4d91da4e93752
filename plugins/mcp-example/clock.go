package main

import "time"

// A clock tells the current time. The tools are its methods.
type clock func() time.Time

// A moment is a point in time as the clocks of a time zone show it.
type moment struct {
	Zone    string `json:"zone" jsonschema:"IANA name of the time zone"`
	Time    string `json:"time" jsonschema:"date and time with UTC offset, RFC 3339"`
	Weekday string `json:"weekday" jsonschema:"day of the week, in English"`
	Offset  string `json:"offset" jsonschema:"UTC offset, such as +02:00"`
}

// momentAt returns what clocks in the zone show at t.
func momentAt(t time.Time, zone *time.Location) moment {
	t = t.In(zone)
	return moment{
		Zone:    zone.String(),
		Time:    t.Format(time.RFC3339),
		Weekday: t.Weekday().String(),
		Offset:  t.Format("-07:00"),
	}
}

type nowInput struct {
	Zone string `json:"zone,omitempty" jsonschema:"IANA name of the time zone, such as Europe/Berlin; default: the one that the server is configured with"`
}

// now is the tool that tells the current time.
func (c clock) now(in nowInput) (moment, error) {
	name := in.Zone
	if name == "" {
		name = "UTC"
	}
	zone, err := loadZone(name)
	if err != nil {
		return moment{}, err
	}
	return momentAt(c(), zone), nil
}
