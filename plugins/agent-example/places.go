package main

import (
	"regexp"
	"strings"
)

// A place is where clocks show the same time.
type place struct {
	name string // what to call it
	zone string // IANA name of its time zone
}

// zones of places that people ask for, by their names. Any other place can be
// asked for by its time zone.
var zones = map[string]string{
	"Amsterdam": "Europe/Amsterdam", "Athens": "Europe/Athens", "Auckland": "Pacific/Auckland",
	"Bangkok": "Asia/Bangkok", "Barcelona": "Europe/Madrid", "Beijing": "Asia/Shanghai",
	"Berlin": "Europe/Berlin", "Bogotá": "America/Bogota", "Boston": "America/New_York",
	"Brussels": "Europe/Brussels", "Buenos Aires": "America/Argentina/Buenos_Aires", "Cairo": "Africa/Cairo",
	"Cape Town": "Africa/Johannesburg", "Chicago": "America/Chicago", "Copenhagen": "Europe/Copenhagen",
	"Delhi": "Asia/Kolkata", "Denver": "America/Denver", "Dubai": "Asia/Dubai",
	"Dublin": "Europe/Dublin", "Hamburg": "Europe/Berlin", "Helsinki": "Europe/Helsinki",
	"Hong Kong": "Asia/Hong_Kong", "Honolulu": "Pacific/Honolulu", "Istanbul": "Europe/Istanbul",
	"Jakarta": "Asia/Jakarta", "Johannesburg": "Africa/Johannesburg", "Karachi": "Asia/Karachi",
	"Kathmandu": "Asia/Kathmandu", "Kyiv": "Europe/Kyiv", "Lagos": "Africa/Lagos",
	"Lima": "America/Lima", "Lisbon": "Europe/Lisbon", "London": "Europe/London",
	"Los Angeles": "America/Los_Angeles", "Madrid": "Europe/Madrid", "Manila": "Asia/Manila",
	"Melbourne": "Australia/Melbourne", "Mexico City": "America/Mexico_City", "Milan": "Europe/Rome",
	"Moscow": "Europe/Moscow", "Mumbai": "Asia/Kolkata", "Munich": "Europe/Berlin",
	"Nairobi": "Africa/Nairobi", "New York": "America/New_York", "Oslo": "Europe/Oslo",
	"Paris": "Europe/Paris", "Perth": "Australia/Perth", "Prague": "Europe/Prague",
	"Reykjavik": "Atlantic/Reykjavik", "Rio de Janeiro": "America/Sao_Paulo", "Rome": "Europe/Rome",
	"San Francisco": "America/Los_Angeles", "Santiago": "America/Santiago", "São Paulo": "America/Sao_Paulo",
	"Seattle": "America/Los_Angeles", "Seoul": "Asia/Seoul", "Shanghai": "Asia/Shanghai",
	"Singapore": "Asia/Singapore", "Stockholm": "Europe/Stockholm", "Sydney": "Australia/Sydney",
	"Taipei": "Asia/Taipei", "Tehran": "Asia/Tehran", "Tel Aviv": "Asia/Jerusalem",
	"Tokyo": "Asia/Tokyo", "Toronto": "America/Toronto", "Vancouver": "America/Vancouver",
	"Vienna": "Europe/Vienna", "Warsaw": "Europe/Warsaw", "Washington": "America/New_York",
	"Zurich": "Europe/Zurich",

	// Countries that have one time zone.
	"Austria": "Europe/Vienna", "China": "Asia/Shanghai", "France": "Europe/Paris",
	"Germany": "Europe/Berlin", "India": "Asia/Kolkata", "Italy": "Europe/Rome",
	"Japan": "Asia/Tokyo", "Switzerland": "Europe/Zurich", "UTC": "UTC",
}

// otherNames are further names of places in zones.
var otherNames = map[string]string{
	"bogota": "Bogotá", "gmt": "UTC", "kiev": "Kyiv", "la": "Los Angeles", "new delhi": "Delhi",
	"new york city": "New York", "nyc": "New York", "sao paulo": "São Paulo", "sf": "San Francisco",
	"washington dc": "Washington", "zürich": "Zurich",
}

var places = indexPlaces()

func indexPlaces() map[string]place {
	index := make(map[string]place, len(zones)+len(otherNames))
	for name, zone := range zones {
		index[strings.ToLower(name)] = place{name, zone}
	}
	for other, name := range otherNames {
		index[other] = place{name, zones[name]}
	}
	return index
}

var (
	zoneName    = regexp.MustCompile(`^[A-Za-z]+(/[A-Za-z0-9_+-]+){1,2}$`)
	placeTrails = regexp.MustCompile(`(?i)[\s,]+(right now|now|today|please|at the moment|local time|time)$`)
)

// findPlace returns the place that words name. It takes all that looks like a
// time zone for one: the tools know which there are.
func findPlace(words string) (place, bool) {
	if zoneName.MatchString(words) {
		return place{words, words}, true
	}
	found, ok := places[strings.ToLower(words)]
	return found, ok
}

// trimPlace removes from words what people write around a place's name.
func trimPlace(words string) string {
	for {
		trimmed := placeTrails.ReplaceAllString(strings.Trim(words, " \t\n,;.?!\"“”"), "")
		if trimmed == words {
			return trimmed
		}
		words = trimmed
	}
}
