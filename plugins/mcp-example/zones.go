package main

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // the zones themselves, for machines that have none
)

// zonesTxt lists the zones that are named after places, sorted, and UTC: the
// standard library can load a zone but not list them. (They are the names in
// lib/time/zoneinfo.zip of the Go distribution.) Other names that it knows,
// such as Japan or Etc/GMT+1, are understood but not listed.
//
//go:embed zones.txt
var zonesTxt string

var zoneNames = strings.Fields(zonesTxt)

// loadZone returns the time zone with the given IANA name; case does not
// matter. Its error is written for the one who has to mend the name.
func loadZone(name string) (*time.Location, error) {
	wanted := strings.ReplaceAll(strings.TrimSpace(name), " ", "_")
	for _, listed := range zoneNames {
		if strings.EqualFold(listed, wanted) {
			wanted = listed
			break
		}
	}
	// Local is the zone of this machine, and the empty name is UTC: neither is
	// what somebody elsewhere means.
	if wanted != "" && !strings.EqualFold(wanted, "Local") {
		if zone, err := time.LoadLocation(wanted); err == nil {
			return zone, nil
		}
	}
	if near := nearestZones(wanted); len(near) > 0 {
		return nil, fmt.Errorf("unknown time zone %q: use an IANA name, perhaps %s", name, strings.Join(near, ", "))
	}
	return nil, fmt.Errorf("unknown time zone %q: use an IANA name such as Europe/Berlin; the resource %s lists them", name, zonesURI)
}

// nearestZones returns up to three names that somebody who wrote the given one
// may have meant, the likeliest first. It is empty if none comes near.
func nearestZones(name string) []string {
	type candidate struct {
		name     string
		distance int
	}
	name = strings.ToLower(name)
	var near []candidate
	for _, listed := range zoneNames {
		distance := zoneDistance(name, strings.ToLower(listed))
		// More than a third of the letters wrong is another word.
		if distance <= len(name)/3 {
			near = append(near, candidate{listed, distance})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return a.distance - b.distance })
	var names []string
	for _, c := range near[:min(3, len(near))] {
		names = append(names, c.name)
	}
	return names
}

// zoneDistance is the number of typing errors between the name and a listed
// zone or, since the region is what people forget or get wrong, between their
// last parts.
func zoneDistance(name, listed string) int {
	last := func(s string) string { return s[strings.LastIndex(s, "/")+1:] }
	return min(editDistance(name, listed), editDistance(last(name), last(listed)))
}

// editDistance counts the bytes to insert, remove or replace to make b of a.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1) // row[j] is the distance of a[:i] and b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
