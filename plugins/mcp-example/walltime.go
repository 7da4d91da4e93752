package main

import "time"

// How often the clocks of a zone show a given date and time.
const (
	wallOnce  = "once"
	wallNever = "never" // skipped when clocks are set forward
	wallTwice = "twice" // repeated when they are set back
)

// resolved is the moment meant by what a clock on the wall shows.
type resolved struct {
	time  time.Time
	wall  time.Time     // what the clock shows, as if it were UTC; unset if wallOnce
	kind  string        // wallOnce, wallNever or wallTwice
	shift time.Duration // by how much clocks are set, unless wallOnce
}

// resolveWall returns the moment at which clocks in the zone show the date and
// time of wall, whose own zone is UTC. If they show it twice it is the first
// moment. If never, it is counted from before the change, so that 02:30 in a
// gap of an hour is 03:30. (time.Date makes no promise in either case.)
func resolveWall(wall time.Time, zone *time.Location) resolved {
	// No offset comes near a day, so the offsets in question are those of a
	// day before and a day after, and the change, if any, is between. Two
	// changes within two days are unheard of.
	const day = 24 * time.Hour
	before := offsetAt(wall.Add(-day), zone)
	after := offsetAt(wall.Add(day), zone)

	early := wall.Add(-before)
	late := wall.Add(-after)
	earlyHolds := offsetAt(early, zone) == before
	lateHolds := offsetAt(late, zone) == after
	switch {
	case before == after:
		return resolved{time: early, kind: wallOnce}
	case earlyHolds && lateHolds:
		return resolved{time: early, wall: wall, kind: wallTwice, shift: before - after}
	case earlyHolds:
		return resolved{time: early, kind: wallOnce}
	case lateHolds:
		return resolved{time: late, kind: wallOnce}
	}
	return resolved{time: early, wall: wall, kind: wallNever, shift: after - before}
}

// offsetAt returns how far clocks in the zone are ahead of UTC at t.
func offsetAt(t time.Time, zone *time.Location) time.Duration {
	_, seconds := t.In(zone).Zone()
	return time.Duration(seconds) * time.Second
}
