//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// envStranger has this program be a stranger: a process that has nothing to do
// with the installation, listens on a port if one is given, and says on its
// standard output what happens to it. It lives until its standard input ends.
const envStranger = "CHAOS_STRANGER"

// envPatience is how long a stranger tries to get its port.
const envPatience = "CHAOS_PATIENCE"

// beStranger is the life of a stranger.
func beStranger(port string) error {
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	go func() {
		for sig := range signals {
			fmt.Printf("signal %v\n", sig)
		}
	}()
	if port != "" && port != "0" {
		patience, _ := time.ParseDuration(os.Getenv(envPatience))
		deadline := time.Now().Add(patience)
		listener, err := net.Listen("tcp", "127.0.0.1:"+port)
		for err != nil && time.Now().Before(deadline) {
			listener, err = net.Listen("tcp", "127.0.0.1:"+port)
		}
		if err != nil {
			fmt.Println("taken")
			return nil
		}
		defer listener.Close()
	}
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// stranger is a stranger that runs.
type stranger struct {
	name    string
	process *os.Process
	hold    *os.File // its standard input

	mu      sync.Mutex
	leaving bool
	over    chan struct{} // closed when it was reaped
}

// startStranger starts a stranger with more environment variables, taken as
// they are: duplicates among them stay. It returns nil without an error if the
// port is taken.
func (t *tester) startStranger(name string, port int, env ...string) (*stranger, error) {
	stdinR, stdinW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdinR.Close()
	stdoutR, stdoutW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdoutW.Close()
	s := &stranger{name: name, hold: stdinW, over: make(chan struct{})}
	// The Go runtime sends itself signals to preempt its goroutines, unless it
	// is told not to. The name is one that a clean-up by name would hit.
	env = append([]string{envStranger + "=" + strconv.Itoa(port), "GODEBUG=asyncpreemptoff=1"}, env...)
	s.process, err = t.children.start(func() (*os.Process, error) {
		return os.StartProcess(t.self, []string{"faultplugin"}, &os.ProcAttr{
			Env:   env,
			Files: []*os.File{stdinR, stdoutW, os.Stderr},
		})
	})
	if err != nil {
		return nil, err
	}
	lines := bufio.NewReader(stdoutR)
	first, err := lines.ReadString('\n')
	go func() {
		defer stdoutR.Close()
		for {
			line, err := lines.ReadString('\n')
			if line != "" {
				t.violate("stranger %s (pid %d) says: %s", name, s.process.Pid, line)
			}
			if err != nil {
				break
			}
		}
		state, err := s.process.Wait()
		t.children.forget(s.process.Pid)
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.leaving {
			t.violate("stranger %s (pid %d) ended: %v %v", name, s.process.Pid, state, err)
		}
		close(s.over)
	}()
	switch first {
	case "ready\n":
		return s, nil
	case "taken\n":
		s.leave()
		return nil, nil
	}
	return nil, fmt.Errorf("the stranger %s says %q (%w)", name, first, err)
}

// leave ends a stranger in peace, and returns when it is gone. It may be nil.
func (s *stranger) leave() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.leaving = true
	s.mu.Unlock()
	_ = s.hold.Close()
	<-s.over
}

// frozen reports whether somebody has stopped the stranger by a signal that
// it cannot tell of.
func (s *stranger) frozen() bool {
	p := readStat(s.process.Pid)
	return p != nil && (p.state == 'T' || p.state == 't')
}

// children are this program's own, which somebody waits for.
type children struct {
	mu  sync.Mutex
	own map[int]bool
}

// start starts a child that the caller will wait for, and then forget.
func (c *children) start(start func() (*os.Process, error)) (*os.Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	process, err := start()
	if err == nil {
		if c.own == nil {
			c.own = make(map[int]bool)
		}
		c.own[process.Pid] = true
	}
	return process, err
}

func (c *children) forget(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.own, pid)
}

// reap reaps those who became this program's children when their parents died,
// as it must if it is the init of a namespace.
func (c *children) reap(all []*process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range all {
		if p.state == 'Z' && p.parent == os.Getpid() && !c.own[p.pid] {
			_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
		}
	}
}
