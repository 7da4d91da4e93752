package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plughost/plughost/shared/marker"
)

// environ is what the kernel shows of a process's environment.
func environ(t *testing.T, pid int) []string {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(content), "\x00"), "\x00")
}

func TestEnvironmentOfAChildIsOnlyWhatItWasGiven(t *testing.T) {
	t.Parallel()
	const body = `
  env     = { BOTH = "configuration", OWN = "1", FAULT_GRANDCHILD = "plain" }
  inherit = ["BOTH", "INHERITED", "ABSENT"]
`
	h := startFaults(t, hostOptions{env: []string{
		"CANARY_SECRET=hunter2",
		"BOTH=host",
		"INHERITED=host",
		"TRAPPED=host",
		// As if the host were itself a plugin of something.
		"PLUGIN_CLIENT_CERT=nonsense",
		"PLUGIN_PROTOCOL_VERSIONS=99",
		"PLUGIN_UNIX_SOCKET_DIR=/nonexistent",
		// And a child of another installation's host.
		marker.Subprocess + "=1",
		marker.MCPService + "=other",
		marker.Installation + "=6b1f0c80-54a5-4d0b-8f38-9b3b6d4b8a11",
		marker.Instance + "=0192d3a0-0000-7000-8000-000000000001",
	}}, fault("f", body), server("hosted", body))
	h.waitReady()
	for name, want := range map[string]int{"f": 2, "hosted": 3} {
		status := h.status()[name]
		processes := instanceProcesses(t, status.Instance)
		if len(processes) != want {
			t.Fatalf("%s: %d processes carry the instance's marker, want the plugin, any server that it hosts, and the grandchild", name, len(processes))
		}
		for _, process := range processes {
			checkEnvironment(t, environ(t, process.PID), name, status.Instance)
		}
	}

	// The host carries its own marker and no other.
	id, err := marker.ParseList(environ(t, h.cmd.Process.Pid))
	if err != nil || id.Kind != marker.KindHost {
		t.Errorf("the host's marker says %v (%v), want a host", id, err)
	}
}

func checkEnvironment(t *testing.T, env []string, service, instance string) {
	t.Helper()
	vars := make(map[string]string)
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		if _, twice := vars[name]; twice {
			t.Errorf("%s is there twice", name)
		}
		vars[name] = value
	}
	for name, want := range map[string]string{
		"BOTH":            "configuration",
		"OWN":             "1",
		"INHERITED":       "host",
		marker.Subprocess: "1",
		marker.MCPService: service,
		marker.Instance:   instance,
	} {
		if vars[name] != want {
			t.Errorf("%s is %q, want %q", name, vars[name], want)
		}
	}
	allowed := []string{"BOTH", "OWN", "INHERITED", "FAULT_GRANDCHILD"}
	for name, value := range vars {
		known := strings.HasPrefix(name, "PLUGHOST_") || strings.HasPrefix(name, "PLUGIN_")
		for _, a := range allowed {
			known = known || name == a
		}
		if !known {
			t.Errorf("%s=%s was passed on", name, value)
		}
		if value == "hunter2" || value == "nonsense" || value == "/nonexistent" || name == marker.Host {
			t.Errorf("%s=%s was passed on", name, value)
		}
	}
}

func TestChildInheritsNoDescriptorOfTheHost(t *testing.T) {
	t.Parallel()
	opts := faultConfig(t, hostOptions{stateDir: newStateDir(t)}, fault("f", ""))
	// As a shell would: a file left open for whatever is started.
	file, err := os.Create(filepath.Join(t.TempDir(), "stray"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	opts.inherit = []*os.File{file}
	h := startHost(t, opts)
	h.waitReady()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", h.status()["f"].PID))
	if err != nil || len(links) == 0 {
		t.Fatalf("cannot read the plugin's descriptors: %v", err)
	}
	for _, link := range links {
		if target, _ := os.Readlink(link); target == file.Name() {
			t.Errorf("descriptor %s of the plugin is %s", filepath.Base(link), target)
		}
	}
}
