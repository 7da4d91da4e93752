//go:build linux

package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// spec is a service of the configuration.
type spec struct {
	kind, name string
	program    string // the name of its binary
	port       bool
	dependsOn  []string
	env        map[string]string
	// generation is in its environment, and grows when the configuration of
	// the service is changed.
	generation int
}

// label is the service's name with its kind, as the host's log has it.
func (s *spec) label() string { return s.kind + "." + s.name }

// specs are the services that a storm begins with.
func specs() []*spec {
	fault := func(name string, port bool, env ...string) *spec {
		s := &spec{kind: "mcp", name: name, program: "faultplugin", port: port, env: make(map[string]string)}
		for _, entry := range env {
			key, value, _ := strings.Cut(entry, "=")
			s.env[key] = value
		}
		return s
	}
	after := func(s *spec, names ...string) *spec {
		s.dependsOn = names
		return s
	}
	return []*spec{
		{kind: "mcp", name: "clock-1", program: "mcp-example", port: true},
		{kind: "mcp", name: "clock-2", program: "mcp-example", port: true},
		{kind: "agent", name: "agent-1", program: "agent-example", port: true, dependsOn: []string{"mcp.clock-1"}},
		{kind: "agent", name: "agent-2", program: "agent-example", port: true, dependsOn: []string{"mcp.clock-2", "agent.agent-1"}},
		fault("plain-1", true),
		after(fault("plain-2", true), "mcp.plain-1"),
		fault("child-1", true, "FAULT_SHELL="+plain),
		fault("child-2", true, "FAULT_SHELL="+stubborn),
		fault("daemon-1", true, "FAULT_SHELL="+daemon),
		fault("daemon-2", false, "FAULT_SHELL="+stubbornDaemon),
		fault("heir", false, "FAULT_SHELL="+heir),
		fault("stopped", true, "FAULT_SHELL="+stopped),
		fault("crowd", false, "FAULT_SHELL="+crowd),
		fault("slow-1", true, "FAULT_DELAY=400ms"),
		fault("slow-2", false, "FAULT_DELAY=700ms", "FAULT_SHELL="+daemon),
		fault("stubborn-1", true, "FAULT_STUBBORN=1"),
		fault("stubborn-2", true, "FAULT_STUBBORN=1", "FAULT_SHELL="+stubbornDaemon),
		fault("flood-1", false, "FAULT_FLOOD=2000"),
		fault("flood-2", true, "FAULT_FLOOD=500", "FAULT_SHELL="+plain),
		after(fault("garbage", true, "FAULT_EARLY=$GARBAGE", "FAULT_SHELL="+daemon), "mcp.slow-1"),
	}
}

// What plugins start beside themselves. All of it ends by itself one day, for
// what no storm ends.
const (
	plain = "exec sleep 900"
	// It does not die of SIGTERM.
	stubborn = "trap '' TERM; exec sleep 900"
	// It is in a session of its own, and its parent is gone.
	daemon         = "setsid sleep 900 &"
	stubbornDaemon = "trap '' TERM; setsid sleep 900 &"
	// A daemon that starts another one at SIGTERM, and exits.
	heir = `setsid sh -c "trap 'setsid sleep 900 & exit' TERM; while :; do sleep 900 & wait; done" &`
	// A daemon that has stopped itself with SIGSTOP.
	stopped = "setsid sh -c 'kill -STOP $$; sleep 900' &"
	// Thirty that do not die of SIGTERM, a third of them daemons.
	crowd = "trap '' TERM; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 900 & sleep 900 & setsid sleep 900 & done; wait"
)

// world is what the host is expected to make of what was done to it.
type world struct {
	services []*spec
	stopped  map[string]bool // by request
	usurped  map[string]bool // a stranger has the port
	added    int             // services that the configuration ever got
}

func newWorld() *world {
	return &world{services: specs(), stopped: make(map[string]bool), usurped: make(map[string]bool)}
}

func (w *world) find(name string) *spec {
	for _, s := range w.services {
		if s.name == name {
			return s
		}
	}
	return nil
}

// expectation is how a service should be.
type expectation int

const (
	up      expectation = iota // ready
	down                       // stopped
	blocked                    // wanted, and a stranger has its port
	either                     // it runs on, or waits for a dependency
)

func (w *world) expect(s *spec) expectation {
	switch {
	case w.stopped[s.name]:
		return down
	case w.usurped[s.name]:
		return blocked
	case w.hindered(s):
		return either
	}
	return up
}

// hindered reports whether something that a service depends on is not to be ready.
func (w *world) hindered(s *spec) bool {
	return slices.ContainsFunc(s.dependsOn, func(label string) bool {
		_, name, _ := strings.Cut(label, ".")
		dependency := w.find(name)
		return dependency != nil && w.expect(dependency) != up
	})
}

// running are the names of services that should be ready, and that match.
func (w *world) running(match func(*spec) bool) []string {
	var names []string
	for _, s := range w.services {
		if w.expect(s) == up && (match == nil || match(s)) {
			names = append(names, s.name)
		}
	}
	return names
}

// names are those of a set, in an order that does not depend on chance.
func (w *world) names(set map[string]bool) []string {
	return slices.Sorted(maps.Keys(set))
}

// apply says what comes of an action. An action on what is not there changes
// nothing.
func (w *world) apply(a action) {
	switch a.kind {
	case stopServices, stopStarting:
		for _, name := range a.services {
			if w.find(name) != nil {
				w.stopped[name] = true
			}
		}
	case startServices, restartService, restartTwice, allVerbs:
		for _, name := range a.services {
			delete(w.stopped, name)
		}
	case takePort:
		for _, name := range a.services {
			if w.find(name) != nil {
				delete(w.stopped, name)
				w.usurped[name] = true
			}
		}
	case leavePort:
		for _, name := range a.services {
			delete(w.usurped, name)
		}
	case killHost, killBooting, killStopping, hurryStopping, stopHost, damageRegistry, reusePID, twoHosts, fillDiskBooting, limitFiles:
		clear(w.stopped) // a host starts every service
	case reload:
		w.change(a)
		clear(w.stopped)
	case killPlugin, killTwice, killGrandchild, freezePlugin, freezeOther, racePort, pauseHost, secondHost, fillDisk:
	}
}

const maxAdded = 3

// change changes the configuration: a service is added, the oldest added one
// removed, or one gets another environment.
func (w *world) change(a action) {
	isAdded := func(s *spec) bool { return strings.HasPrefix(s.name, "added-") }
	oldest := slices.IndexFunc(w.services, isAdded)
	switch choice := a.number % 3; {
	case choice == 0 && w.added-w.removed() < maxAdded:
		w.added++
		w.services = append(w.services, &spec{
			kind: "mcp", name: "added-" + strconv.Itoa(w.added), program: "faultplugin",
			env: map[string]string{"FAULT_SHELL": daemon},
		})
	case choice == 1 && oldest >= 0:
		delete(w.stopped, w.services[oldest].name)
		w.services = slices.Delete(w.services, oldest, oldest+1)
	default:
		for _, name := range a.services {
			if s := w.find(name); s != nil {
				s.generation++
			}
		}
	}
}

// removed is how many added services are gone again.
func (w *world) removed() int {
	n := w.added
	for _, s := range w.services {
		if strings.HasPrefix(s.name, "added-") {
			n--
		}
	}
	return n
}

// settings are what a configuration needs beside the services.
type settings struct {
	gateway  int
	ports    map[string]int // by service
	programs map[string]string
	garbage  string // path of a file of it
}

// render writes the configuration.
func (w *world) render(set settings) string {
	var b strings.Builder
	fmt.Fprintf(&b, "host {\n  listen = \"127.0.0.1:%d\"\n  shutdown {\n    timeout = \"10s\"\n  }\n}\n", set.gateway)
	for _, s := range w.services {
		fmt.Fprintf(&b, "\nservice %q %q {\n  command = [%q]\n", s.kind, s.name, set.programs[s.program])
		if s.port {
			fmt.Fprintf(&b, "  port = %d\n", set.ports[s.name])
		}
		if len(s.dependsOn) > 0 {
			fmt.Fprintf(&b, "  depends_on = [service.%s]\n", strings.Join(s.dependsOn, ", service."))
		}
		env := maps.Clone(s.env)
		if env == nil {
			env = make(map[string]string)
		}
		env["PATH"] = "/usr/local/bin:/usr/bin:/bin"
		env[envGeneration] = strconv.Itoa(s.generation)
		fmt.Fprint(&b, "  env = {\n")
		for _, key := range slices.Sorted(maps.Keys(env)) {
			fmt.Fprintf(&b, "    %s = %q\n", key, strings.ReplaceAll(env[key], "$GARBAGE", set.garbage))
		}
		fmt.Fprint(&b, "  }\n", serviceBody, "}\n")
	}
	return b.String()
}

// envGeneration tells a process of one configuration of a service from one of
// another.
const envGeneration = "CHAOS_GENERATION"

const serviceBody = `  ready {
    timeout = "20s"
  }
  health {
    interval = "250ms"
    timeout  = "500ms"
    failures = 2
  }
  restart {
    delay     = "50ms"
    factor    = 1.5
    max_delay = "1s"
    limit     = 0
  }
  stop {
    grace = "500ms"
  }
`

// programs are the binaries of the services.
func programs(bin, faults string) map[string]string {
	return map[string]string{
		"mcp-example":   filepath.Join(bin, "mcp-example"),
		"agent-example": filepath.Join(bin, "agent-example"),
		"faultplugin":   faults,
	}
}
