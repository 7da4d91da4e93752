//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// kind is what an action does, in words.
type kind string

const (
	killPlugin      kind = "kill plugins"
	killTwice       kind = "kill a plugin and, a moment later, its successor"
	killGrandchild  kind = "kill a grandchild"
	freezePlugin    kind = "stop a plugin by SIGSTOP, for good"
	freezeOther     kind = "stop a grandchild by SIGSTOP, for good"
	stopServices    kind = "plughost stop"
	startServices   kind = "plughost start"
	restartService  kind = "plughost restart"
	restartTwice    kind = "plughost restart, twice at once"
	allVerbs        kind = "plughost stop, start and restart at once"
	stopStarting    kind = "plughost stop of a service that starts"
	takePort        kind = "a stranger takes the port of a stopped service"
	leavePort       kind = "the stranger leaves the port"
	racePort        kind = "a stranger races for the port of a killed plugin"
	killHost        kind = "kill the host"
	killBooting     kind = "kill the host, and its successor while it boots"
	killStopping    kind = "kill the host while it stops"
	hurryStopping   kind = "stop the host, and hurry it"
	stopHost        kind = "stop the host"
	pauseHost       kind = "the host sleeps while plugins are killed"
	damageRegistry  kind = "kill the host, and damage the registry"
	reusePID        kind = "kill the host, and give a plugin's pid to a stranger"
	secondHost      kind = "start a second host"
	twoHosts        kind = "kill the host, and start two at once"
	fillDisk        kind = "fill the disk, kill plugins, and free it"
	fillDiskBooting kind = "fill the disk, kill the host, and free it when the next one boots"
	limitFiles      kind = "run the host with few file descriptors for a while"
	reload          kind = "change the configuration"
)

// weights say how often each kind comes, relative to the others.
var weights = []struct {
	kind   kind
	weight int
}{
	{killPlugin, 24},
	{killTwice, 10},
	{killGrandchild, 10},
	{freezePlugin, 5},
	{freezeOther, 3},
	{stopServices, 11},
	{startServices, 11},
	{restartService, 10},
	{restartTwice, 4},
	{allVerbs, 5},
	{stopStarting, 5},
	{takePort, 5},
	{leavePort, 5},
	{racePort, 6},
	{killHost, 6},
	{killBooting, 3},
	{killStopping, 3},
	{hurryStopping, 2},
	{stopHost, 2},
	{pauseHost, 3},
	{damageRegistry, 5},
	{reusePID, 3},
	{secondHost, 4},
	{twoHosts, 2},
	{fillDisk, 5},
	{fillDiskBooting, 2},
	{limitFiles, 2},
	{reload, 5},
}

// action is one step of the storm. Which fields count depends on its kind.
type action struct {
	kind     kind
	services []string
	wait     time.Duration // between two halves of the action
	number   int           // a choice of the kind's own
	// outlive has the next host started so that its children do not notice
	// when it dies.
	outlive bool
}

func (a action) String() string {
	text := string(a.kind)
	if len(a.services) > 0 {
		text += ": " + strings.Join(a.services, ", ")
	}
	return text + fmt.Sprintf(" (wait %v, number %d, outlive %v)", a.wait, a.number, a.outlive)
}

// plan draws the actions of a storm. They depend on the seed and on nothing
// else; the first steps of a longer storm are those of a shorter one.
func plan(seed uint64, steps int) []action {
	random := rand.New(rand.NewPCG(seed, 0))
	w := newWorld()
	actions := make([]action, 0, steps)
	for len(actions) < steps {
		a := draw(random, w)
		w.apply(a)
		actions = append(actions, a)
	}
	return actions
}

// draw draws an action that makes sense in the world.
func draw(random *rand.Rand, w *world) action {
	for {
		a := action{
			kind:    drawKind(random),
			wait:    time.Duration(random.IntN(500)) * time.Millisecond,
			number:  random.IntN(1 << 16),
			outlive: random.IntN(2) == 0,
		}
		choose := func(n int, names []string) bool {
			names = slices.Clone(names)
			random.Shuffle(len(names), func(i, k int) { names[i], names[k] = names[k], names[i] })
			a.services = names[:min(n, len(names))]
			return len(names) > 0
		}
		possible := true
		switch a.kind {
		case killPlugin:
			possible = choose(1+random.IntN(3), w.running(nil))
		case killTwice, freezePlugin, restartService, restartTwice, allVerbs:
			possible = choose(1, w.running(nil))
		case killGrandchild, freezeOther:
			possible = choose(1, w.running(func(s *spec) bool { return s.env["FAULT_SHELL"] != "" }))
		case stopServices:
			// Never all: a storm needs something to blow at.
			possible = len(w.stopped)+len(w.usurped) < 8 && choose(1+random.IntN(4), w.running(nil))
		case startServices:
			possible = choose(1+random.IntN(6), w.names(w.stopped))
		case stopStarting:
			possible = choose(1, w.running(func(s *spec) bool { return s.env["FAULT_DELAY"] != "" }))
		case takePort:
			possible = len(w.usurped) < 3 && choose(1, w.running(func(s *spec) bool { return s.port }))
		case leavePort:
			possible = choose(1, w.names(w.usurped))
		case racePort:
			possible = choose(1, w.running(func(s *spec) bool { return s.port }))
		case pauseHost, fillDisk, reusePID:
			possible = choose(2, w.running(nil))
		case reload:
			possible = choose(1, w.running(nil))
		case killHost, killBooting, killStopping, hurryStopping, stopHost, damageRegistry,
			secondHost, twoHosts, fillDiskBooting, limitFiles:
		}
		if possible {
			return a
		}
	}
}

func drawKind(random *rand.Rand) kind {
	sum := 0
	for _, w := range weights {
		sum += w.weight
	}
	n := random.IntN(sum)
	for _, w := range weights {
		if n -= w.weight; n < 0 {
			return w.kind
		}
	}
	return weights[0].kind
}
