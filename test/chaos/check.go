//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ours are the processes of the installation that live: those that carry its
// marker.
func (t *tester) ours(all []*process) []*process {
	id := t.id()
	return slices.DeleteFunc(slices.Clone(all), func(p *process) bool {
		return !p.lives() || p.twice || id == "" || p.environ[envInstallation] != id || p.environ[envSubprocess] != "1"
	})
}

// settle returns when all is as the world is expected to be, and how long that
// took. If that does not come about in time it is a violation, as is what must
// not be even for a moment.
func (t *tester) settle(a action) (time.Duration, error) {
	start := time.Now()
	deadline := start.Add(t.patience)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 80*time.Millisecond) {
		problems := t.problems()
		if err := t.violation(); err != nil {
			return 0, err
		}
		if len(problems) == 0 {
			return time.Since(start), nil
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("after %v it is still so, after %q:\n  %s", t.patience, a, strings.Join(problems, "\n  "))
		}
		t.pause(pause)
	}
}

// problems are the differences between how it is and how it should be.
func (t *tester) problems() []string {
	// What is cheap to see needs no question to the host.
	if missing := t.missing(); missing != "" {
		return []string{missing}
	}
	status, err := t.status()
	if err != nil {
		return []string{err.Error()}
	}
	var problems []string
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if status.PID != t.host.pid {
		problem("plughost status says that the host is pid %d, and it is %d", status.PID, t.host.pid)
	}
	all := processes()
	ours := t.ours(all)
	sockets := listeners()
	current := make(map[string]bool)
	for _, s := range t.world.services {
		service := status.find(s.name)
		if service.Instance != "" {
			current[service.Instance] = true
		}
		t.checkState(problem, s, service, sockets)
		if service.State == "ready" {
			t.checkReady(problem, s, service, ours, sockets)
		}
	}
	for _, service := range status.Services {
		if t.world.find(service.Service.Name) == nil {
			problem("service %s is %s, and is not configured any more", service.Service.Name, service.State)
		}
	}
	for _, p := range ours {
		if !current[p.instance()] {
			problem("a process of a dead instance lives: %v", p)
		}
	}
	t.checkFiles(problem, len(current))
	if n, most := descriptors(t.host.pid), 100+20*len(t.world.services); n > most {
		problem("the host has %d files open, more than %d", n, most)
	} else {
		t.maxFiles = max(t.maxFiles, n)
	}
	return problems
}

// missing is a service of which there is no process, or no socket on its port,
// and should be.
func (t *tester) missing() string {
	there := make(map[string]bool)
	for _, p := range t.ours(processes()) {
		if p.parent == t.host.pid && p.group == p.pid {
			there[p.service()] = true
		}
	}
	sockets := listeners()
	for _, s := range t.world.services {
		if t.world.expect(s) != up {
			continue
		}
		if !there[s.name] {
			return fmt.Sprintf("service %s should be ready, and has no process", s.name)
		}
		if s.port && len(sockets[t.ports[s.name]]) == 0 {
			return fmt.Sprintf("service %s should be ready, and nobody listens on its port", s.name)
		}
	}
	return ""
}

// checkState checks the state of a service, and the port of one that must not
// have it.
func (t *tester) checkState(problem func(string, ...any), s *spec, service serviceStatus, sockets map[int][]string) {
	expected := t.world.expect(s)
	port := t.ports[s.name]
	switch {
	case expected == up && service.State != "ready":
		problem("service %s is %q and should be ready: %s %s", s.name, service.State, service.Cause, service.LastError)
	case expected == either && service.State != "ready" && service.State != "waiting":
		problem("service %s is %q and should be ready or waiting: %s %s", s.name, service.State, service.Cause, service.LastError)
	case expected == down && (service.State != "stopped" || service.Instance != ""):
		problem("service %s is %q and should be stopped: %s %s", s.name, service.State, service.Cause, service.LastError)
	case expected == blocked && service.State == "waiting" && t.world.hindered(s):
		// It has not come to its port yet.
	case expected == blocked:
		usurper := t.usurpers[s.name]
		if service.State == "ready" || usurper != nil && !strings.Contains(service.LastError, "pid "+strconv.Itoa(usurper.process.Pid)) {
			problem("service %s is %q, and a stranger has its port: %s", s.name, service.State, service.LastError)
		}
	}
	if expected == down && s.port && len(sockets[port]) > 0 {
		problem("port %d of service %s, which is stopped, is stranded", port, s.name)
	}
}

// checkReady checks that a service that says it is ready is.
func (t *tester) checkReady(problem func(string, ...any), s *spec, service serviceStatus, ours []*process, sockets map[int][]string) {
	var instance []*process
	for _, p := range ours {
		if p.instance() == service.Instance {
			instance = append(instance, p)
		}
	}
	leader := slices.IndexFunc(instance, func(p *process) bool { return p.pid == service.PID })
	if leader < 0 {
		problem("service %s is ready, and its process %d is not there", s.name, service.PID)
		return
	}
	if p := instance[leader]; p.parent != t.host.pid || p.group != p.pid || p.service() != s.name || p.state == 'T' {
		problem("the process of service %s is not as it should be: %v", s.name, p)
	}
	if got := instance[leader].environ[envGeneration]; got != strconv.Itoa(s.generation) {
		problem("service %s runs with generation %s of its configuration, and not %d", s.name, got, s.generation)
	}
	if !s.port {
		return
	}
	port := t.ports[s.name]
	if len(sockets[port]) == 0 {
		problem("service %s is ready, and nobody listens on its port %d", s.name, port)
	}
	for _, inode := range sockets[port] {
		if !slices.ContainsFunc(instance, func(p *process) bool { return holds(p.pid, inode) }) {
			problem("port %d of service %s is stranded: a socket on it is not of the current instance", port, s.name)
		}
	}
}

// checkFiles checks that instances that are gone left no directory.
func (t *tester) checkFiles(problem func(string, ...any), instances int) {
	entries, err := os.ReadDir(filepath.Join(t.stateDir, "run"))
	if err != nil {
		problem("the directory of the sockets: %v", err)
		return
	}
	dirs := 0
	for _, entry := range entries {
		if entry.IsDir() {
			dirs++
		}
	}
	if dirs > instances {
		problem("there are %d directories of instances, and %d instances", dirs, instances)
	}
}

// nothingOf checks, at once, that nothing is left of some services; of all if
// names is nil.
func (t *tester) nothingOf(names []string) error {
	all := processes()
	var left []string
	for _, p := range t.ours(all) {
		if names == nil || slices.Contains(names, p.service()) {
			left = append(left, p.String())
		}
	}
	sockets := listeners()
	for _, s := range t.world.services {
		if s.port && t.usurpers[s.name] == nil && (names == nil || slices.Contains(names, s.name)) && len(sockets[t.ports[s.name]]) > 0 {
			left = append(left, fmt.Sprintf("port %d of service %s", t.ports[s.name], s.name))
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("plughost says that all is stopped, and this is left:\n  %s", strings.Join(left, "\n  "))
	}
	return nil
}

// watch looks, all the time, for what must not be even for a moment, until the
// storm is over.
func (t *tester) watch() {
	defer close(t.watched)
	zombies := make(map[int]time.Time)
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		all := processes()
		t.children.reap(all)
		t.watchInstances(all)
		t.watchZombies(all, zombies)
		select {
		case <-tick.C:
		case <-t.over:
			return
		}
	}
}

const (
	watchInterval = 100 * time.Millisecond
	// zombieBound is how long a host may take to reap a child. It is generous:
	// a host may sleep for a second of the storm.
	zombieBound = 10 * time.Second
)

// watchInstances looks for two instances of one service at once.
func (t *tester) watchInstances(all []*process) {
	first := make(map[string]*process)
	for _, p := range t.ours(all) {
		service := p.service()
		t.mu.Lock()
		t.instances[p.instance()] = true
		t.mu.Unlock()
		other := first[service]
		switch {
		case other == nil:
			first[service] = p
		case other.instance() != p.instance() && other.same() && p.same() && other.same():
			t.violate("service %s has two instances at once:\n  %v\n  %v", service, other, p)
		}
	}
}

// watchZombies looks for children that their host does not reap.
func (t *tester) watchZombies(all []*process, seen map[int]time.Time) {
	t.mu.Lock()
	host := t.hostPID
	t.mu.Unlock()
	zombies := make(map[int]bool)
	for _, p := range all {
		if p.state != 'Z' || p.parent != host || host == 0 {
			continue
		}
		zombies[p.pid] = true
		if since, known := seen[p.pid]; !known {
			seen[p.pid] = time.Now()
		} else if time.Since(since) > zombieBound {
			t.violate("the host (pid %d) does not reap its child: %v", host, p)
		}
	}
	for pid := range seen {
		if !zombies[pid] {
			delete(seen, pid)
		}
	}
}
