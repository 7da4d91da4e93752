//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// do does an action, and has the world expect what comes of it.
func (t *tester) do(a action) error {
	do, ok := t.actions()[a.kind]
	if !ok {
		return fmt.Errorf("nobody knows how to do that")
	}
	if a.kind != reload { // which needs the world of after
		t.world.apply(a)
	}
	return do(a)
}

func (t *tester) actions() map[kind]func(action) error {
	return map[kind]func(action) error{
		killPlugin:      t.killPlugins,
		killTwice:       t.killTwice,
		killGrandchild:  func(a action) error { return t.signalOther(a, syscall.SIGKILL) },
		freezePlugin:    func(a action) error { return t.signalLeaders(a.services, syscall.SIGSTOP) },
		freezeOther:     func(a action) error { return t.signalOther(a, syscall.SIGSTOP) },
		stopServices:    t.stopServices,
		startServices:   t.startServices,
		restartService:  t.restart,
		restartTwice:    t.restartTwice,
		allVerbs:        t.allVerbs,
		stopStarting:    t.stopStarting,
		takePort:        t.takePort,
		leavePort:       t.leavePort,
		racePort:        t.racePort,
		killHost:        t.killHost,
		killBooting:     t.killBooting,
		killStopping:    func(a action) error { return t.interruptStop(a, syscall.SIGKILL) },
		hurryStopping:   func(a action) error { return t.interruptStop(a, syscall.SIGTERM) },
		stopHost:        t.stopHost,
		pauseHost:       t.pauseHost,
		damageRegistry:  t.damageRegistry,
		reusePID:        t.reusePID,
		secondHost:      t.secondHost,
		twoHosts:        t.twoHosts,
		fillDisk:        t.fillDisk,
		fillDiskBooting: t.fillDiskBooting,
		limitFiles:      t.limitFiles,
		reload:          t.reload,
	}
}

// leader is the process of a service's current instance, or 0.
func (t *tester) leader(name string) (int, error) {
	status, err := t.status()
	if err != nil {
		return 0, err
	}
	return status.find(name).PID, nil
}

// signal signals a process of the installation; that it is one is looked up a
// moment before.
func (t *tester) signal(pid int, sig syscall.Signal) error {
	if pid == 0 {
		return nil
	}
	p := readProcess(pid)
	if p == nil || p.environ[envInstallation] != t.id() {
		return nil // it is gone, and it was not this action
	}
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("cannot send %v to %v: %w", sig, p, err)
	}
	return nil
}

func (t *tester) signalLeaders(names []string, sig syscall.Signal) error {
	status, err := t.status()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := t.signal(status.find(name).PID, sig); err != nil {
			return err
		}
	}
	return nil
}

func (t *tester) killPlugins(a action) error { return t.signalLeaders(a.services, syscall.SIGKILL) }

func (t *tester) killTwice(a action) error {
	if err := t.killPlugins(a); err != nil {
		return err
	}
	t.pause(a.wait / 2)
	return t.killPlugins(a) // whatever is there by now
}

// signalOther signals one of a service's processes that is not the plugin.
func (t *tester) signalOther(a action, sig syscall.Signal) error {
	leader, err := t.leader(a.services[0])
	if err != nil {
		return err
	}
	var others []int
	for _, p := range t.ours(processes()) {
		if p.service() == a.services[0] && p.pid != leader {
			others = append(others, p.pid)
		}
	}
	if len(others) == 0 {
		return nil
	}
	return t.signal(others[a.number%len(others)], sig)
}

func (t *tester) stopServices(a action) error {
	if err := t.mustCLI(append([]string{"stop"}, a.services...)...); err != nil {
		return err
	}
	return t.nothingOf(a.services)
}

func (t *tester) startServices(a action) error {
	for _, name := range a.services {
		if t.world.expect(t.world.find(name)) != up {
			_, _, err := t.cli("start", name) // it says what it waits for
			if err != nil {
				return err
			}
			continue
		}
		if err := t.mustCLI("start", name); err != nil {
			return err
		}
	}
	return nil
}

func (t *tester) restart(a action) error {
	before, err := t.status()
	if err != nil {
		return err
	}
	if err := t.mustCLI(append([]string{"restart"}, a.services...)...); err != nil {
		return err
	}
	after, err := t.status()
	if err != nil {
		return err
	}
	for _, name := range a.services {
		if s := after.find(name); s.Instance == before.find(name).Instance {
			return fmt.Errorf("plughost says that service %s was restarted, and the instance is still %s", name, s.Instance)
		}
	}
	return nil
}

// atOnce runs command lines side by side.
func (t *tester) atOnce(lines ...[]string) error {
	errs := make([]error, len(lines))
	var wg sync.WaitGroup
	for i, line := range lines {
		wg.Go(func() { _, _, errs[i] = t.cli(line...) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (t *tester) restartTwice(a action) error {
	name := a.services[0]
	return t.atOnce([]string{"restart", name}, []string{"restart", name})
}

func (t *tester) allVerbs(a action) error {
	name := a.services[0]
	if err := t.atOnce([]string{"stop", name}, []string{"start", name}, []string{"restart", name}, []string{"stop", name}); err != nil {
		return err
	}
	return t.mustCLI("start", name)
}

func (t *tester) stopStarting(a action) error {
	name := a.services[0]
	old, err := t.leader(name)
	if err != nil {
		return err
	}
	restarted := make(chan error, 1)
	go func() {
		_, _, err := t.cli("restart", name) // which the stop will fail
		restarted <- err
	}()
	// The stop must not come to the host before the restart.
	for start := time.Now(); old != 0 && readStat(old) != nil && time.Since(start) < t.patience; {
		t.pause(5 * time.Millisecond)
	}
	t.pause(a.wait)
	err = t.mustCLI("stop", name)
	if err = errors.Join(err, <-restarted); err != nil {
		return err
	}
	return t.nothingOf(a.services)
}

func (t *tester) takePort(a action) error {
	name := a.services[0]
	if err := t.mustCLI("stop", name); err != nil {
		return err
	}
	s, err := t.startStranger("on the port of "+name, t.ports[name])
	if err != nil {
		return err
	}
	if s == nil {
		return fmt.Errorf("service %s is stopped, and its port %d is still taken", name, t.ports[name])
	}
	t.usurpers[name] = s
	_, code, err := t.cli("start", name)
	if err == nil && code == 0 {
		err = fmt.Errorf("plughost says that service %s was started, and a stranger has its port", name)
	}
	return err
}

func (t *tester) leavePort(a action) error {
	name := a.services[0]
	t.usurpers[name].leave()
	delete(t.usurpers, name)
	return nil
}

func (t *tester) racePort(a action) error {
	name := a.services[0]
	type result struct {
		s   *stranger
		err error
	}
	raced := make(chan result, 1)
	go func() {
		s, err := t.startStranger("racing for the port of "+name, t.ports[name], envPatience+"=1s")
		raced <- result{s, err}
	}()
	err := t.killPlugins(a)
	race := <-raced
	if race.s != nil {
		t.pause(a.wait)
		race.s.leave()
	}
	return errors.Join(err, race.err)
}

func (t *tester) killHost(a action) error {
	if err := t.kill(t.host); err != nil {
		return err
	}
	return t.boot(a.outlive)
}

func (t *tester) stopHost(a action) error {
	if err := t.stop(t.host); err != nil {
		return err
	}
	return t.boot(a.outlive)
}

func (t *tester) killBooting(a action) error {
	if err := t.killHost(a); err != nil {
		return err
	}
	t.pause(a.wait * 2)
	return t.killHost(action{outlive: a.number%2 == 0})
}

// interruptStop stops the host, and sends it another signal before it is done.
func (t *tester) interruptStop(a action, sig syscall.Signal) error {
	t.host.expectEnd()
	if err := t.host.process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	t.pause(a.wait)
	if err := t.host.process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if err := t.waitExit(t.host); err != nil {
		return err
	}
	if sig != syscall.SIGKILL {
		if code := t.host.state.ExitCode(); code != 0 {
			return fmt.Errorf("the host that was hurried ended with %v", t.host.state)
		}
		if err := t.nothingOf(nil); err != nil {
			return err
		}
	}
	return t.boot(a.outlive)
}

func (t *tester) pauseHost(a action) error {
	status, err := t.status()
	if err != nil {
		return err
	}
	if err := t.host.process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for _, name := range a.services {
		err = errors.Join(err, t.signal(status.find(name).PID, syscall.SIGKILL))
	}
	t.pause(a.wait)
	return errors.Join(err, t.host.process.Signal(syscall.SIGCONT))
}

// damages are what can happen to a registry while no host runs.
var damages = []func(path string) error{
	os.Remove,
	func(path string) error { return os.Truncate(path, 0) },
	func(path string) error { return os.Truncate(path, 1) },
	func(path string) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		return os.Truncate(path, info.Size()/2)
	},
	func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("garbage "), 4<<10), 0o600) },
	func(path string) error {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i := range content[len(content)/3:] {
			content[len(content)/3+i] ^= byte(i * 7)
		}
		return os.WriteFile(path, content, 0o600)
	},
	func(path string) error {
		// One bit, anywhere.
		content, err := os.ReadFile(path)
		if err != nil || len(content) == 0 {
			return err
		}
		content[len(content)*2/5] ^= 0x10
		return os.WriteFile(path, content, 0o600)
	},
}

func (t *tester) damageRegistry(a action) error {
	if err := t.kill(t.host); err != nil {
		return err
	}
	path := filepath.Join(t.stateDir, "registry.db")
	// Those that were moved aside before would fill the disk one day.
	aside, _ := filepath.Glob(path + ".damaged-*")
	for _, old := range aside {
		if err := os.Remove(old); err != nil {
			return err
		}
	}
	if err := damages[a.number%len(damages)](path); err != nil {
		return err
	}
	return t.boot(a.outlive)
}

// reusePID gives the pid of a plugin that the registry knows to a stranger. It
// takes a namespace in which this program can choose pids; without one the host
// is just killed. Linux gives no process a pid that is still the number of a
// group, so the plugin's whole group is killed.
func (t *tester) reusePID(a action) error {
	pid, err := t.leader(a.services[0])
	if err != nil {
		return err
	}
	if err := errors.Join(t.kill(t.host), t.signal(pid, syscall.SIGKILL)); err != nil {
		return err
	}
	for start := time.Now(); pid != 0 && t.ownPIDs && time.Since(start) < t.patience; {
		if members := groupOf(pid); len(members) > 0 {
			for _, p := range members {
				if err := t.signal(p.pid, syscall.SIGKILL); err != nil {
					return err
				}
			}
			t.pause(time.Millisecond) // they are not reaped yet
			continue
		}
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0); err != nil {
			return err
		}
		s, err := t.startStranger("with the pid of "+a.services[0], 0)
		if err != nil {
			return err
		}
		if s.process.Pid == pid {
			t.guests = append(t.guests, s)
			break
		}
		s.leave() // somebody else was faster
		if now := readStat(pid); now != nil && now.lives() {
			break
		}
	}
	return t.boot(a.outlive)
}

func (t *tester) secondHost(action) error {
	second, err := t.startHost(false, 0)
	if err != nil {
		return err
	}
	return t.refused(second, t.host)
}

// refused waits for the end of a host that finds another one running.
func (t *tester) refused(h, other *host) error {
	h.expectEnd()
	if err := t.waitExit(h); err != nil {
		return errors.Join(err, t.kill(h))
	}
	if code := h.state.ExitCode(); code != 1 {
		return fmt.Errorf("a second host (pid %d) ended with %v, want exit status 1", h.pid, h.state)
	}
	if !h.output.contains("another plughost host is running") {
		return fmt.Errorf("a second host (pid %d) does not say why it ended; the other is pid %d", h.pid, other.pid)
	}
	return nil
}

func (t *tester) twoHosts(a action) error {
	if err := t.kill(t.host); err != nil {
		return err
	}
	one, err := t.startHost(a.outlive, 0)
	if err != nil {
		return err
	}
	other, err := t.startHost(a.outlive, 0)
	if err != nil {
		return err
	}
	one.expectEnd()
	other.expectEnd()
	select {
	case <-one.exited:
		one, other = other, one
	case <-other.exited:
	case <-time.After(t.patience):
		t.use(one)
		return errors.Join(errors.New("two hosts run on one state directory"), t.kill(other))
	}
	if one.hasExited() {
		t.use(one)
		return errors.New("of two hosts that were started at once none runs on")
	}
	one.mu.Lock()
	one.ending = false
	one.mu.Unlock()
	t.use(one)
	return t.refused(other, one)
}

// fill fills the disk of the state directory to its last byte.
func (t *tester) fill() error {
	file, err := os.Create(filepath.Join(t.stateDir, "ballast"))
	if err != nil {
		return err
	}
	defer file.Close()
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = file.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return err
		}
	}
	return nil
}

func (t *tester) free() error { return os.Remove(filepath.Join(t.stateDir, "ballast")) }

func (t *tester) fillDisk(a action) error {
	if !t.diskFull {
		return nil
	}
	if err := t.fill(); err != nil {
		return err
	}
	err := t.killPlugins(a)
	// Whatever it says: there is no room for anything.
	_, _, cliErr := t.cli("restart", a.services[0])
	t.pause(a.wait)
	return errors.Join(err, cliErr, t.free())
}

func (t *tester) fillDiskBooting(a action) error {
	if !t.diskFull {
		return t.killHost(a)
	}
	if err := errors.Join(t.fill(), t.kill(t.host)); err != nil {
		return err
	}
	h, err := t.startHost(a.outlive, 0)
	if err != nil {
		return err
	}
	h.expectEnd() // it may refuse to run
	select {
	case <-h.exited:
	case <-time.After(a.wait * 2):
	}
	if err := errors.Join(t.free(), t.kill(h)); err != nil {
		return err
	}
	return t.boot(a.number%2 == 0)
}

// limitFiles runs the host with so few descriptors that it cannot do
// everything, or nothing.
func (t *tester) limitFiles(a action) error {
	if err := t.stop(t.host); err != nil {
		return err
	}
	h, err := t.startHost(a.outlive, 24+a.number%160)
	if err != nil {
		return err
	}
	h.expectEnd() // it may refuse to run
	select {
	case <-h.exited:
	case <-time.After(500*time.Millisecond + a.wait*2):
		t.use(h)
		_, _, err = t.cli("restart", t.world.services[a.number%len(t.world.services)].name)
		if err != nil {
			return err
		}
		if err := h.process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		if err := t.waitExit(h); err != nil {
			return err
		}
		if h.state.ExitCode() == 0 {
			if err := t.nothingOf(nil); err != nil {
				return err
			}
		}
	}
	return t.boot(a.number%2 == 0)
}

// reload changes the configuration. A host that cannot reload is restarted.
func (t *tester) reload(a action) error {
	before, err := t.status()
	if err != nil {
		return err
	}
	stopped := t.world.names(t.world.stopped)
	generations := make(map[string]int)
	for _, s := range t.world.services {
		generations[s.name] = s.generation
	}
	t.world.apply(a)
	if err := t.writeConfig(); err != nil {
		return err
	}
	if !t.reloads {
		return t.stopHost(a)
	}
	if err := t.mustCLI("reload"); err != nil {
		return err
	}
	after, err := t.status()
	if err != nil {
		return err
	}
	for _, s := range t.world.services {
		generation, known := generations[s.name]
		was, is := before.find(s.name), after.find(s.name)
		if known && generation == s.generation && was.State == "ready" && is.Instance != was.Instance {
			return fmt.Errorf("service %s did not change, and the reload replaced its instance %s by %s (%s)", s.name, was.Instance, is.Instance, strings.TrimSpace(is.Cause+" "+is.LastError))
		}
	}
	for _, name := range stopped {
		if t.world.find(name) != nil {
			if _, _, err := t.cli("start", name); err != nil {
				return err
			}
		}
	}
	return nil
}
