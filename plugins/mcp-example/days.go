package main

import (
	"errors"
	"fmt"
	"time"
)

type daysInput struct {
	From string `json:"from,omitempty" jsonschema:"the first date, YYYY-MM-DD; default today (UTC)"`
	To   string `json:"to,omitempty" jsonschema:"the second date, YYYY-MM-DD; default today (UTC)"`
}

type daysOutput struct {
	From    string `json:"from" jsonschema:"the first date"`
	To      string `json:"to" jsonschema:"the second date"`
	Days    int    `json:"days" jsonschema:"days from the first date to the second; negative if the second is earlier"`
	Weeks   int    `json:"weeks" jsonschema:"whole weeks in these days, with the same sign"`
	Rest    int    `json:"rest" jsonschema:"days that make no whole week, with the same sign"`
	Summary string `json:"summary" jsonschema:"the same in words"`
}

// daysBetween is the tool that counts the days between two dates.
func (c clock) daysBetween(in daysInput) (daysOutput, error) {
	if in.From == "" && in.To == "" {
		return daysOutput{}, errors.New("give the argument from, to, or both: one left out is today")
	}
	from, err := c.date("from", in.From)
	if err != nil {
		return daysOutput{}, err
	}
	to, err := c.date("to", in.To)
	if err != nil {
		return daysOutput{}, err
	}
	// Not to.Sub(from), which ends at 292 years. Both are midnights in UTC,
	// where every day has 24 hours.
	const day = 24 * 60 * 60
	days := int((to.Unix() - from.Unix()) / day)
	out := daysOutput{
		From:  from.Format(time.DateOnly),
		To:    to.Format(time.DateOnly),
		Days:  days,
		Weeks: days / 7,
		Rest:  days % 7,
	}
	out.Summary = out.inWords()
	return out, nil
}

// date reads an argument that is a date, and takes an empty one for today.
func (c clock) date(argument, value string) (time.Time, error) {
	if value == "" {
		value = c().UTC().Format(time.DateOnly)
	}
	date, err := time.Parse(time.DateOnly, value)
	if err != nil {
		return time.Time{}, fmt.Errorf("the argument %s is %q, which is no date: write YYYY-MM-DD, such as 2026-03-01", argument, value)
	}
	return date, nil
}

func (d daysOutput) inWords() string {
	days, weeks, rest, side := d.Days, d.Weeks, d.Rest, "after"
	if days < 0 {
		days, weeks, rest, side = -days, -weeks, -rest, "before"
	}
	switch {
	case days == 0:
		return fmt.Sprintf("%s is the same day", d.To)
	case weeks == 0:
		return fmt.Sprintf("%s is %s %s %s", d.To, count(days, "day"), side, d.From)
	case rest == 0:
		return fmt.Sprintf("%s is %s (%s) %s %s", d.To, count(days, "day"), count(weeks, "week"), side, d.From)
	}
	return fmt.Sprintf("%s is %s (%s and %s) %s %s",
		d.To, count(days, "day"), count(weeks, "week"), count(rest, "day"), side, d.From)
}

// count writes a number of things: 1 day, 2 days.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
