package test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// notifySocket is a service manager's end of sd_notify(3).
type notifySocket struct {
	t    *testing.T
	conn *net.UnixConn
}

func listenNotify(t *testing.T, name string) notifySocket {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return notifySocket{t, conn}
}

// waitFor reads messages until one matches, and returns it.
func (s notifySocket) waitFor(pattern string) string {
	s.t.Helper()
	wanted := regexp.MustCompile(pattern)
	buffer := make([]byte, 4096)
	var before []string
	for {
		n, err := s.conn.Read(buffer)
		if err != nil {
			s.t.Fatalf("no message matches %q: %v; there were %q", pattern, err, before)
		}
		message := string(buffer[:n])
		if wanted.MatchString(message) {
			return message
		}
		before = append(before, message)
	}
}

func TestServiceManagerIsTold(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "notify-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for name, address := range map[string]string{
		"by a socket":              filepath.Join(dir, "s"),
		"by a socket without file": fmt.Sprintf("@plughost-test-%d", os.Getpid()),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			manager := listenNotify(t, address)
			h := startFaults(t, hostOptions{env: []string{"NOTIFY_SOCKET=" + address, "WATCHDOG_USEC=60000"}},
				fault("f", ""), fault("broken", "  env = { FAULT_EXIT = \"1\" }\n  restart {\n    delay = \"1h\"\n    max_delay = \"1h\"\n  }\n"))
			manager.waitFor(`^STATUS=0 of 2 services ready: .*mcp.f is starting`)
			// One that is broken keeps nobody from booting.
			manager.waitFor(`^READY=1\nSTATUS=1 of 2 services ready: mcp.broken is backoff$`)
			manager.waitFor(`^WATCHDOG=1$`)
			for _, p := range instanceProcesses(t, h.status()["f"].Instance) {
				environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
				if err != nil || strings.Contains(string(environ), "NOTIFY_SOCKET") || strings.Contains(string(environ), "WATCHDOG") {
					t.Errorf("the plugin is given the service manager's variables, or cannot be looked at (%v)", err)
				}
			}

			h.signal(syscall.SIGHUP)
			manager.waitFor(`^RELOADING=1\nMONOTONIC_USEC=[0-9]+\nSTATUS=`)
			manager.waitFor(`^READY=1\nSTATUS=1 of 2 services ready: mcp.broken is backoff$`)
			if err := os.WriteFile(h.config, []byte("service {"), 0o600); err != nil {
				t.Fatal(err)
			}
			h.signal(syscall.SIGHUP)
			manager.waitFor(`^READY=1\nSTATUS=1 of 2 .*the last reload failed: the configuration has errors`)

			h.signal(syscall.SIGTERM)
			manager.waitFor(`^STOPPING=1\n`)
			h.waitExit()
		})
	}
}

// The first process of a container gets what nobody else waits for, and the
// signals of the container's runtime.
func TestHostIsTheFirstProcessOfAContainer(t *testing.T) {
	t.Parallel()
	const orphans = "for i in 1 2 3 4 5; do (sleep 0 &); done; echo all-are-orphans >&2"
	h := startFaults(t, hostOptions{asInit: true}, fault("f", fmt.Sprintf("  env = { FAULT_SHELL = %q, PATH = \"/usr/bin:/bin\" }\n", orphans)))
	h.waitReady()
	plugin := h.status()["f"]
	if plugin.PID > 1000 {
		t.Errorf("the plugin has pid %d: the host is in no namespace of its own", plugin.PID)
	}
	eventually(t, "the script is over", func() bool {
		stdout, _, _ := plughost(t, "logs", "f", "--state-dir", h.stateDir)
		return strings.Contains(stdout, "all-are-orphans")
	})
	eventually(t, "all orphans are reaped", func() bool { return len(zombies(t, h.cmd.Process.Pid)) == 0 })
	h.stop()
	if left := instanceProcesses(t, plugin.Instance); len(left) != 0 {
		t.Errorf("after SIGTERM there are %+v", left)
	}
}

// zombies are the children of a process that nobody has waited for.
func zombies(t *testing.T, parent int) (pids []string) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	if err != nil || len(lists) == 0 {
		t.Fatalf("the children of process %d cannot be listed: %v", parent, err)
	}
	for _, list := range lists {
		children, _ := os.ReadFile(list) // the thread may be gone
		for _, pid := range strings.Fields(string(children)) {
			if status, err := os.ReadFile("/proc/" + pid + "/status"); err == nil && strings.Contains(string(status), "State:\tZ") {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
