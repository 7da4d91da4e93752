package main

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// meetingInput is what the arguments of the prompt say, as they came.
type meetingInput struct {
	zones, date, hours, duration string
}

// A meeting is what the prompt is about.
type meeting struct {
	zones      []*time.Location
	date       time.Time // midnight in UTC
	start, end time.Duration
	hours      string // start and end as given
	duration   time.Duration
}

// A span is a stretch of time.
type span struct{ from, to time.Time }

// meeting returns the prompt's text. It does the arithmetic, at which models
// are bad, and leaves to the model what they are good at.
func (c clock) meeting(in meetingInput) (string, error) {
	m, err := c.parseMeeting(in)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "Find a time for a meeting of %d minutes on %s, %s. Its people work %s in their own time zones:\n\n",
		int(m.duration.Minutes()), m.date.Weekday(), m.date.Format(time.DateOnly), m.hours)
	for _, zone := range m.zones {
		work := m.workIn(zone)
		fmt.Fprintf(&text, "- %s (UTC%s): %s\n", zone, momentAt(work.from, zone).Offset, work)
	}
	if all := m.common(); all.to.Sub(all.from) >= m.duration {
		fmt.Fprintf(&text, "\nAll of them work from %s.\n", all)
	} else {
		text.WriteString("\nAt no time do all of them work for that long: somebody has to start early or stay late.\n")
	}
	text.WriteString("\nPropose up to three start times, the best first. For each, say what it is in every zone (the tool convert " +
		"tells) and for whom it is inconvenient. Then ask which one to take.")
	return text.String(), nil
}

func (c clock) parseMeeting(in meetingInput) (meeting, error) {
	var m meeting
	for name := range strings.SplitSeq(in.zones, ",") {
		if strings.TrimSpace(name) == "" {
			continue
		}
		zone, err := loadZone(name)
		if err != nil {
			return meeting{}, fmt.Errorf("the argument zones: %w", err)
		}
		m.zones = append(m.zones, zone)
	}
	if len(m.zones) == 0 {
		return meeting{}, errors.New("the argument zones is empty: list the people's time zones, such as Europe/Berlin, Asia/Tokyo")
	}

	var err error
	if in.date == "" {
		in.date = c().UTC().AddDate(0, 0, 1).Format(time.DateOnly)
	}
	if m.date, err = c.date("date", in.date); err != nil {
		return meeting{}, err
	}

	m.hours = in.hours
	if m.hours == "" {
		m.hours = "09:00-17:00"
	}
	if m.start, m.end, err = parseHours(m.hours); err != nil {
		return meeting{}, err
	}

	if in.duration == "" {
		in.duration = "1h"
	}
	if m.duration, err = time.ParseDuration(in.duration); err != nil || m.duration < time.Minute {
		return meeting{}, fmt.Errorf("the argument duration is %q: write a minute or more, such as 45m or 1h30m", in.duration)
	}
	return m, nil
}

// parseHours reads hours such as 09:00-17:00 as times since midnight.
func parseHours(hours string) (start, end time.Duration, err error) {
	first, second, _ := strings.Cut(hours, "-")
	from, fromErr := time.Parse("15:04", strings.TrimSpace(first))
	to, toErr := time.Parse("15:04", strings.TrimSpace(second))
	if fromErr != nil || toErr != nil || !from.Before(to) {
		return 0, 0, fmt.Errorf("the argument hours is %q: write the start and a later end, such as 09:00-17:00", hours)
	}
	return sinceMidnight(from), sinceMidnight(to), nil
}

func sinceMidnight(t time.Time) time.Duration {
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
}

// workIn returns when people in the zone work on the day of the meeting.
func (m meeting) workIn(zone *time.Location) span {
	return span{
		from: resolveWall(m.date.Add(m.start), zone).time,
		to:   resolveWall(m.date.Add(m.end), zone).time,
	}
}

// common returns when all work. If they never do, it ends before it begins.
func (m meeting) common() span {
	all := m.workIn(m.zones[0])
	for _, zone := range m.zones[1:] {
		work := m.workIn(zone)
		if work.from.After(all.from) {
			all.from = work.from
		}
		if work.to.Before(all.to) {
			all.to = work.to
		}
	}
	return all
}

func (s span) String() string {
	const layout = "2006-01-02 15:04"
	return fmt.Sprintf("%s to %s UTC", s.from.UTC().Format(layout), s.to.UTC().Format(layout))
}
