//go:build linux

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if port, ok := os.LookupEnv(envStranger); ok {
		if err := beStranger(port); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestShortStorm is the first steps of `make chaos`.
func TestShortStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	bin := t.TempDir()
	output, err := exec.Command("go", "build", "-o", bin, "../../plugins/...", "../faultplugin", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	output, err = exec.Command("go", "build", "-o", filepath.Join(bin, "plughost"), "../../host").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	output, err = exec.Command(filepath.Join(bin, "chaos"), "-bin", bin, "-steps", "25", "-seed", "1").CombinedOutput()
	t.Logf("%s", output)
	if err != nil {
		t.Error(err)
	}
}

func TestPlanDependsOnTheSeedAlone(t *testing.T) {
	const steps = 2000
	actions := plan(1, steps)
	if !reflect.DeepEqual(actions, plan(1, steps)) {
		t.Error("the same seed gives another storm")
	}
	if !reflect.DeepEqual(actions[:300], plan(1, 300)) {
		t.Error("a longer storm begins differently")
	}
	if reflect.DeepEqual(actions, plan(2, steps)) {
		t.Error("another seed gives the same storm")
	}
	drawn := make(map[kind]int)
	for _, a := range actions {
		drawn[a.kind]++
	}
	known := (&tester{}).actions()
	for _, w := range weights {
		if drawn[w.kind] == 0 {
			t.Errorf("in %d steps it never comes: %s", steps, w.kind)
		}
		if known[w.kind] == nil {
			t.Errorf("nobody knows how to do it: %s", w.kind)
		}
	}
}

// TestViolationsAreSeen does to the tester what a host must not do.
func TestViolationsAreSeen(t *testing.T) {
	const installation = "11111111-2222-4333-8444-555555555555"
	marked := func(instance string) []string {
		return []string{envSubprocess + "=1", envMCP + "=plain-1", envInstallation + "=" + installation, envInstance + "=" + instance}
	}
	tests := []struct {
		name string
		// do violates something, and returns what is seen of it.
		do   func(t *testing.T, c *tester) error
		want string
	}{
		{"nothing", func(_ *testing.T, c *tester) error {
			c.watchInstances(processes())
			return c.nothingOf(nil)
		}, ""},
		{"one instance", func(t *testing.T, c *tester) error {
			start(t, marked("a"), "sleep", "100")
			start(t, marked("a"), "sleep", "100")
			c.watchInstances(processes())
			return c.violation()
		}, ""},
		{"two instances", func(t *testing.T, c *tester) error {
			start(t, marked("a"), "sleep", "100")
			start(t, marked("b"), "sleep", "100")
			c.watchInstances(processes())
			return c.violation()
		}, "service plain-1 has two instances at once"},
		{"a process that is left", func(t *testing.T, c *tester) error {
			start(t, marked("a"), "sleep", "100")
			return c.nothingOf([]string{"plain-1"})
		}, "instance a: sleep 100"},
		{"a port that is left", func(t *testing.T, c *tester) error {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { listener.Close() })
			c.ports["plain-1"] = listener.Addr().(*net.TCPAddr).Port
			return c.nothingOf([]string{"plain-1"})
		}, "of service plain-1"},
		{"a port that another process has", func(t *testing.T, c *tester) error {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { listener.Close() })
			c.ports["plain-1"] = listener.Addr().(*net.TCPAddr).Port
			pid := start(t, append(marked("a"), envGeneration+"=0"), "sleep", "100")
			var problems []string
			c.host = &host{pid: os.Getpid()}
			c.checkReady(func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) },
				c.world.find("plain-1"), serviceStatus{Instance: "a", PID: pid}, c.ours(processes()), listeners())
			return fmt.Errorf("%s", strings.Join(problems, ", "))
		}, "is stranded: a socket on it is not of the current instance"},
		{"a signal", func(t *testing.T, c *tester) error {
			signalStranger(t, c, syscall.SIGTERM)
			return waitViolation(t, c)
		}, "says: signal terminated"},
		{"a deadly signal", func(t *testing.T, c *tester) error {
			signalStranger(t, c, syscall.SIGKILL)
			return waitViolation(t, c)
		}, "ended: signal: killed"},
		{"a freezing signal", func(t *testing.T, c *tester) error {
			pid := signalStranger(t, c, syscall.SIGSTOP)
			t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
			return waitViolation(t, c)
		}, "was stopped by a signal"},
		{"a zombie", func(t *testing.T, c *tester) error {
			cmd := exec.Command("true")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Wait() })
			for p := readProcess(cmd.Process.Pid); p.state != 'Z'; p = readProcess(cmd.Process.Pid) {
				c.pause(time.Millisecond)
			}
			c.hostPID = os.Getpid()
			c.watchZombies(processes(), map[int]time.Time{cmd.Process.Pid: time.Now().Add(-time.Hour)})
			return c.violation()
		}, "does not reap its child"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			c := &tester{self: self, world: newWorld(), instances: make(map[string]bool), installation: installation}
			c.ports = make(map[string]int)
			err = test.do(t, c)
			switch {
			case test.want == "" && err != nil:
				t.Errorf("it sees %v, and there is nothing", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("it sees %v, want %q", err, test.want)
			}
		})
	}
}

// start starts a process that leads a group, and is killed with the test.
func start(t *testing.T, env []string, args ...string) int {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// signalStranger starts a stranger and signals it.
func signalStranger(t *testing.T, c *tester, sig syscall.Signal) int {
	t.Helper()
	s, err := c.startStranger("under test", 0)
	if err != nil {
		t.Fatal(err)
	}
	c.loners = append(c.loners, s)
	t.Cleanup(s.leave)
	if err := s.process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	return s.process.Pid
}

func waitViolation(t *testing.T, c *tester) error {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); c.pause(time.Millisecond) {
		if err := c.violation(); err != nil {
			return err
		}
	}
	return nil
}
