package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// The tools that the assistant needs, without the names of the services that
// have them.
const (
	toolNow     = "now"
	toolConvert = "convert"
	toolDays    = "days_between"
)

// A plan is what to do about a question. The zero plan is for one that was not
// understood; otherwise one of its fields is set.
type plan struct {
	ask  string // what to ask the user for
	call *call  // the tool to call
}

// A call is a tool call and what is needed to put its result in words.
type call struct {
	tool      string
	arguments map[string]any
	from, to  string // the places, as to be named in the answer
}

// A request is what a question asks for, in the words of the question. Fields
// that it does not name are empty.
type request struct {
	tool string
	time string // of toolConvert
	from string // toolNow: the place; toolConvert: the first place; toolDays: the first date
	to   string // the second place or date
}

// today stands for a date in a request.
const today = "today"

// makePlan plans what to do about the user's messages in one task, the oldest
// first: a question and, if something was missing from it, the user's answers.
func makePlan(messages []string) plan {
	var wanted request
	for _, message := range messages {
		message = normalize(message)
		if asked, ok := understand(message); ok {
			wanted = asked
		} else {
			wanted = wanted.fill(message)
		}
	}
	return wanted.plan()
}

// normalize makes messages easier to match.
func normalize(message string) string {
	message = strings.ReplaceAll(message, "’", "'")
	message = strings.Join(strings.Fields(message), " ")
	return strings.TrimRight(message, " ?!.")
}

// understand reads a question; it reports false if it finds none.
func understand(text string) (request, bool) {
	for _, read := range []func(string) (request, bool){understandDays, understandConvert, understandNow} {
		if wanted, ok := read(text); ok {
			return wanted, true
		}
	}
	return request{}, false
}

var (
	daysWords  = regexp.MustCompile(`(?i)\b(days|weeks|how long)\b.*\b(between|from|until|till?|to|before|since|after|left)\b`)
	untilWords = regexp.MustCompile(`(?i)\b(until|till?|to|before|left)\b`)
	sinceWords = regexp.MustCompile(`(?i)\b(since|after)\b`)
	dateWord   = regexp.MustCompile(`(?i)\b(\d{4}-\d{1,2}-\d{1,2}|today)\b`)
)

// understandDays reads "days between DATE and DATE", "days until DATE" and
// "days since DATE".
func understandDays(text string) (request, bool) {
	if !daysWords.MatchString(text) {
		return request{}, false
	}
	wanted := request{tool: toolDays}
	dates := findDates(text)
	switch {
	case len(dates) >= 2:
		wanted.from, wanted.to = dates[0], dates[1]
	case sinceWords.MatchString(text):
		wanted.to = today
	case untilWords.MatchString(text):
		wanted.from = today
	}
	if len(dates) == 1 {
		wanted = wanted.fill(dates[0])
	}
	return wanted, true
}

func findDates(text string) []string {
	dates := dateWord.FindAllString(text, -1)
	for i := range dates {
		dates[i] = strings.ToLower(dates[i])
	}
	return dates
}

var (
	clockWord    = regexp.MustCompile(`(?i)\b(?:(\d{4}-\d{2}-\d{2})[T ])?(?:at )?(?:(\d{1,2}):(\d{2}) ?([ap]m)?|(\d{1,2}) ?([ap]m)|(noon|midnight))\b`)
	convertWord  = regexp.MustCompile(`(?i)\bconvert\b( the)?( time)?`)
	placeLeads   = regexp.MustCompile(`(?i)(?:^|[\s,;]+)(?:(?:what(?:'s| is| time is)(?: it| that| the time)?|from|in|into|to|at|for)\b[\s,;]*)+`)
	toWord       = regexp.MustCompile(`(?i)\b(to|into)\b`)
	placeThenGap = regexp.MustCompile(`(?i)\bin (.+?),? (?:when|if)\b`)
)

// understandConvert reads "convert TIME from PLACE to PLACE", "what is TIME in
// PLACE in PLACE", "when it is TIME in PLACE, what time is it in PLACE" and
// "what time is it in PLACE when it is TIME in PLACE".
func understandConvert(text string) (request, bool) {
	wanted := request{tool: toolConvert}
	var before, rest string
	if at := clockWord.FindStringIndex(text); at != nil {
		wanted.time = readTime(text[at[0]:at[1]])
		before, rest = text[:at[0]], text[at[1]:]
	} else if at := convertWord.FindStringIndex(text); at != nil {
		before, rest = text[:at[1]], text[at[1]:]
	} else {
		return request{}, false
	}
	if match := placeThenGap.FindStringSubmatch(before); match != nil {
		wanted.to = trimPlace(match[1])
	}
	wanted = wanted.readPlaces(rest)
	isConvert := convertWord.MatchString(before) || wanted.from != "" || wanted.to != ""
	return wanted, isConvert
}

// readPlaces reads up to two places, each after a word such as "in" or "to".
func (r request) readPlaces(text string) request {
	leads := placeLeads.FindAllStringIndex(text, -1)
	start, lead := 0, ""
	for i := 0; i <= len(leads); i++ {
		end := len(text)
		if i < len(leads) {
			end = leads[i][0]
		}
		if words := trimPlace(text[start:end]); words != "" {
			if r.from == "" && !toWord.MatchString(lead) {
				r.from = words
			} else if r.to == "" {
				r.to = words
			}
		}
		if i < len(leads) {
			lead, start = text[leads[i][0]:leads[i][1]], leads[i][1]
		}
	}
	return r
}

// readTime writes a time that clockWord matches as the tools take it: 15:04,
// after the date and a T if it has one.
func readTime(text string) string {
	match := clockWord.FindStringSubmatch(text)
	date, hour, minute, half := match[1], match[2]+match[5], match[3], strings.ToLower(match[4]+match[6])
	switch strings.ToLower(match[7]) {
	case "noon":
		hour = "12"
	case "midnight":
		hour = "0"
	}
	if minute == "" {
		minute = "00"
	}
	h, _ := strconv.Atoi(hour) // one or two digits
	switch {
	case half == "am" && h == 12:
		h = 0
	case half == "pm" && h < 12:
		h += 12
	}
	if date != "" {
		date += "T"
	}
	return fmt.Sprintf("%s%02d:%s", date, h, minute)
}

var (
	timeIn  = regexp.MustCompile(`(?i)\btime\b.*?\b(?:in|at) (.+)$`)
	timeNow = regexp.MustCompile(`(?i)^(tell me |what(?:'s| is) )?(the )?(what )?(current )?time( is it| it is)?( right)?( now)?( please)?$`)
)

// understandNow reads "what time is it in PLACE".
func understandNow(text string) (request, bool) {
	if match := timeIn.FindStringSubmatch(text); match != nil {
		return request{tool: toolNow, from: trimPlace(match[1])}, true
	}
	return request{tool: toolNow}, timeNow.MatchString(text)
}

// fill sets what the request lacks from the user's further words.
func (r request) fill(text string) request {
	if r.tool == toolDays {
		for _, date := range findDates(text) {
			if r.from == "" {
				r.from = date
			} else if r.to == "" {
				r.to = date
			}
		}
		return r
	}
	if r.tool == toolConvert && r.time == "" {
		if match := clockWord.FindString(text); match != "" {
			r.time = readTime(match)
		}
		return r
	}
	words := trimPlace(placeLeads.ReplaceAllString(text, ""))
	if _, known := findPlace(r.from); !known {
		r.from = words
	} else if r.tool == toolConvert {
		r.to = words
	}
	return r
}

// plan turns a request into a call, or asks for what it lacks.
func (r request) plan() plan {
	switch r.tool {
	case toolNow:
		return r.planNow()
	case toolConvert:
		return r.planConvert()
	case toolDays:
		return r.planDays()
	}
	return plan{}
}

func (r request) planNow() plan {
	at, ok := findPlace(r.from)
	if !ok {
		return plan{ask: askForPlace(r.from, "In which city or time zone?")}
	}
	return plan{call: &call{
		tool:      toolNow,
		arguments: map[string]any{"zone": at.zone},
		from:      at.name,
	}}
}

func (r request) planConvert() plan {
	if r.time == "" {
		return plan{ask: "Which time? Write it like 09:30 or 2026-03-01T09:30."}
	}
	from, ok := findPlace(r.from)
	if !ok {
		return plan{ask: askForPlace(r.from, "From which city or time zone?")}
	}
	to, ok := findPlace(r.to)
	if !ok {
		return plan{ask: askForPlace(r.to, "To which city or time zone?")}
	}
	return plan{call: &call{
		tool:      toolConvert,
		arguments: map[string]any{"time": r.time, "from": from.zone, "to": to.zone},
		from:      from.name,
		to:        to.name,
	}}
}

func askForPlace(words, question string) string {
	if words == "" {
		return question
	}
	return fmt.Sprintf("I do not know where %q is. %s Name a large city or an IANA time zone such as Europe/Berlin.", words, question)
}

func (r request) planDays() plan {
	switch {
	case r.from == "" && r.to == "":
		return plan{ask: "Between which dates? Write them like 2026-03-01."}
	case r.from == "":
		return plan{ask: "From which date? Write it like 2026-03-01."}
	case r.to == "":
		return plan{ask: "To which date? Write it like 2026-03-01."}
	case r.from == today && r.to == today:
		return plan{ask: "From today to which date? Write it like 2026-03-01."}
	}
	arguments := map[string]any{}
	if r.from != today { // which the tool takes by default
		arguments["from"] = r.from
	}
	if r.to != today {
		arguments["to"] = r.to
	}
	return plan{call: &call{tool: toolDays, arguments: arguments}}
}
