//go:build unix && !race

package test

const raceEnabled = false
