//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// tester does the storm to a host, and looks from outside what comes of it.
type tester struct {
	options
	self     string // this program
	stateDir string
	config   string // path of the configuration
	diskFull bool   // the state directory has a disk of its own, to be filled
	ownPIDs  bool   // this is the init of a pid namespace
	reloads  bool   // plughost reload is there
	out      io.Writer

	settings
	world    *world
	host     *host
	usurpers map[string]*stranger // by the service whose port they have
	loners   []*stranger          // who have nothing to do with anything
	guests   []*stranger          // who leave after the step
	children children

	tail     tail // of all hosts
	maxFiles int  // that the host had open
	over     chan struct{}
	watched  chan struct{}

	mu           sync.Mutex
	installation string // its id, once it is known
	hostPID      int
	instances    map[string]bool // that were ever seen
	violations   []error
}

// violate records that something happened that must not.
func (t *tester) violate(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.violations = append(t.violations, fmt.Errorf(format, args...))
}

// violation is what was recorded, or nil.
func (t *tester) violation() error {
	for _, s := range t.strangers() {
		if s.frozen() {
			t.violate("stranger %s (pid %d) was stopped by a signal", s.name, s.process.Pid)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Join(t.violations...)
}

func (t *tester) strangers() []*stranger {
	all := append(slices.Clone(t.loners), t.guests...)
	for _, s := range t.usurpers {
		all = append(all, s)
	}
	return all
}

// id is the installation's, or empty as long as there is none.
func (t *tester) id() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.installation == "" {
		content, _ := os.ReadFile(filepath.Join(t.stateDir, "installation"))
		t.installation = strings.TrimSpace(string(content))
	}
	return t.installation
}

// pause waits. It is for what nothing announces, and for an action's two
// halves.
func (t *tester) pause(d time.Duration) { <-time.After(d) }

// boot starts the host that the storm goes on with.
func (t *tester) boot(outlive bool) error {
	h, err := t.startHost(outlive, 0)
	if err != nil {
		return err
	}
	t.use(h)
	return nil
}

func (t *tester) use(h *host) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.host, t.hostPID = h, h.pid
}

// setUp prepares everything and starts the first host.
func (t *tester) setUp() error {
	if err := os.MkdirAll(t.stateDir, 0o700); err != nil {
		return err
	}
	dir := filepath.Dir(t.config)
	t.settings = settings{
		ports:    make(map[string]int),
		programs: programs(t.bin, t.faults),
		garbage:  filepath.Join(dir, "garbage"),
	}
	// What a plugin may say before its handshake: a malformed log line, a line
	// that looks like a handshake, bytes that are no text, a long line.
	garbage := "{\"@message\":1}\n1|2|tcp\n\xff\xfe\x00\x01\n" + strings.Repeat("long ", 50_000) + "\n[ERROR] done\n"
	if err := os.WriteFile(t.garbage, []byte(garbage), 0o600); err != nil {
		return err
	}
	ports, err := freePorts(1 + len(t.world.services))
	if err != nil {
		return err
	}
	t.gateway = ports[0]
	for i, s := range t.world.services {
		t.ports[s.name] = ports[i+1]
	}
	if err := t.writeConfig(); err != nil {
		return err
	}
	_, code, err := t.cli("reload", "--help")
	if err != nil {
		return err
	}
	t.reloads = code == 0
	if err := t.boot(false); err != nil {
		return err
	}
	go t.watch()
	return nil
}

func (t *tester) writeConfig() error {
	return os.WriteFile(t.config, []byte(t.world.render(t.settings)), 0o600)
}

// addLoners starts strangers that a host could take for its own.
func (t *tester) addLoners() error {
	const other = "3b0c9a52-7d04-4b8e-9f51-0d1d3d0a6f10"
	marked := func(installation string) []string {
		return []string{
			envSubprocess + "=1", envMCP + "=plain-1", envInstallation + "=" + installation,
			envInstance + "=0192d3a0-0000-7000-8000-000000000001",
		}
	}
	for _, loner := range []struct {
		name string
		env  []string
	}{
		{"without a marker", nil},
		{"of another installation", marked(other)},
		{"with a marker that contradicts itself", append(marked(t.id()), envInstallation+"="+other)},
		{"with half a marker", marked(t.id())[1:]},
	} {
		s, err := t.startStranger(loner.name, 0, loner.env...)
		if err != nil {
			return err
		}
		t.loners = append(t.loners, s)
	}
	return nil
}

// storm does the actions, and checks after each.
func (t *tester) storm(actions []action, done func(step int, a action, recovery time.Duration)) error {
	if _, err := t.settle(action{kind: "the first boot"}); err != nil {
		return err
	}
	if err := t.addLoners(); err != nil {
		return err
	}
	for i, a := range actions {
		if len(t.only) > 0 && !slices.Contains(t.only, i+1) {
			continue
		}
		t.logf("%4d  %v", i+1, a)
		if err := t.do(a); err != nil {
			return fmt.Errorf("step %d: %v: %w", i+1, a, err)
		}
		recovery, err := t.settle(a)
		if err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		t.logf("%4d  recovered within %v", i+1, recovery.Round(time.Millisecond))
		for _, s := range t.guests {
			s.leave()
		}
		t.guests = nil
		done(i+1, a, recovery)
	}
	for _, s := range t.usurpers {
		s.leave()
	}
	clear(t.usurpers)
	// All at once: what the storm has made of the host shows when it ends.
	if err := t.stop(t.host); err != nil {
		return err
	}
	return t.nothingLeft()
}

func (t *tester) logf(format string, args ...any) {
	if t.verbose {
		fmt.Fprintf(t.out, format+"\n", args...)
	}
}

// nothingLeft checks that a host that was stopped has left no process, no
// socket and no directory of an instance, and that no stranger was touched.
func (t *tester) nothingLeft() error {
	if err := t.nothingOf(nil); err != nil {
		return err
	}
	for _, s := range t.loners {
		s.leave()
	}
	t.loners = nil
	entries, err := os.ReadDir(filepath.Join(t.stateDir, "run"))
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("left in the directory of the sockets: %v", entries)
	}
	if t.ownPIDs {
		// Whatever its marker: in this namespace there is only the storm.
		for _, p := range processes() {
			if p.pid != os.Getpid() && p.lives() {
				return fmt.Errorf("left behind: %v", p)
			}
		}
	}
	return t.violation()
}

// cleanUp ends what still runs, whatever came of the storm.
func (t *tester) cleanUp() {
	if t.host != nil {
		t.host.expectEnd()
		_ = t.host.process.Kill()
		<-t.host.exited
	}
	close(t.over)
	<-t.watched
	for range 20 {
		ours := t.ours(processes())
		for _, p := range ours {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
		if len(ours) == 0 {
			break
		}
		t.pause(20 * time.Millisecond)
	}
	for _, s := range t.strangers() {
		s.leave()
	}
}

// freePorts returns ports that are free, from below the range of which the
// kernel gives ports to clients.
func freePorts(n int) ([]int, error) {
	var ports []int
	for port := 20000 + rand.IntN(10_000); len(ports) < n; port++ {
		if port > 32000 {
			return nil, errors.New("there are not enough free ports")
		}
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		listener.Close()
		ports = append(ports, port)
	}
	return ports, nil
}
