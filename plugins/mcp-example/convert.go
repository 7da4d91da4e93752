package main

import (
	"fmt"
	"strings"
	"time"
)

type convertInput struct {
	Time string `json:"time" jsonschema:"the time: 2026-03-01T15:04 or, today, 15:04; seconds may follow; with a UTC offset (RFC 3339) it is that very moment"`
	From string `json:"from" jsonschema:"IANA name of the time zone that the time is given in"`
	To   string `json:"to" jsonschema:"IANA name of the time zone to convert it to"`
}

type convertOutput struct {
	From moment `json:"from" jsonschema:"the moment in the first zone"`
	To   moment `json:"to" jsonschema:"the same moment in the second zone"`
	Wall string `json:"wall" jsonschema:"how often clocks in the first zone show the time given: once, never or twice"`
	Note string `json:"note,omitempty" jsonschema:"which moment was taken, and why, if they show it never or twice"`
}

// convert is the tool that takes a time from one zone to another.
func (c clock) convert(in convertInput) (convertOutput, error) {
	from, err := loadZone(in.From)
	if err != nil {
		return convertOutput{}, fmt.Errorf("the argument from: %w", err)
	}
	to, err := loadZone(in.To)
	if err != nil {
		return convertOutput{}, fmt.Errorf("the argument to: %w", err)
	}
	at, err := c.resolve(in.Time, from)
	if err != nil {
		return convertOutput{}, err
	}
	if year := at.time.Year(); year < 1 || year > 9998 {
		// Near the ends, RFC 3339 cannot write what it is in the other zone.
		return convertOutput{}, fmt.Errorf("the argument time is %q: use a year from 1 to 9998", in.Time)
	}
	out := convertOutput{
		From: momentAt(at.time, from),
		To:   momentAt(at.time, to),
		Wall: at.kind,
	}
	switch at.kind {
	case wallNever:
		out.Note = fmt.Sprintf("%s does not exist in %s: clocks are set forward over it. Taken as %s.",
			at.wall.Format(wallLayout), from, out.From.Time)
	case wallTwice:
		second := at.time.Add(at.shift)
		out.Note = fmt.Sprintf("%s comes twice in %s, since clocks are set back. Taken as the first, %s; the second, %s, is %s in %s.",
			at.wall.Format(wallLayout), from, out.From.Time, momentAt(second, from).Time, momentAt(second, to).Time, to)
	}
	return out, nil
}

// wallLayout is how a note writes a time that has no offset.
const wallLayout = "2006-01-02 15:04:05"

// The forms in which a time can be given: with the offset and so exact, with
// the date, and for today.
var (
	exactLayouts = []string{time.RFC3339, "2006-01-02T15:04Z07:00"}
	datedLayouts = []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02 15:04:05"}
	todayLayouts = []string{"15:04", "15:04:05"}
)

// resolve reads the time given to convert.
func (c clock) resolve(value string, zone *time.Location) (resolved, error) {
	value = strings.TrimSpace(value)
	if exact, ok := parseAny(exactLayouts, value); ok {
		return resolved{time: exact, kind: wallOnce}, nil
	}
	if wall, ok := parseAny(datedLayouts, value); ok {
		return resolveWall(wall, zone), nil
	}
	if wall, ok := parseAny(todayLayouts, value); ok {
		year, month, day := c().In(zone).Date()
		wall = time.Date(year, month, day, wall.Hour(), wall.Minute(), wall.Second(), 0, time.UTC)
		return resolveWall(wall, zone), nil
	}
	return resolved{}, fmt.Errorf("the argument time is %q, which is no time: write 2026-03-01T15:04, or 15:04 for today", value)
}

func parseAny(layouts []string, value string) (time.Time, bool) {
	for _, layout := range layouts {
		if t, err := time.Parse(layout, value); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
