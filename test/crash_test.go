//go:build unix

package test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestDamagedRegistry loses or damages the registry while children live whose
// host is gone: they are found by their marker.
func TestDamagedRegistry(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		// damage is given the registry's path and its content of before the
		// services were restarted.
		damage func(t *testing.T, path string, earlier []byte)
		// told says that there was something to read, and it could not be.
		told bool
	}{
		{"removed", func(t *testing.T, path string, _ []byte) { check(t, os.Remove(path)) }, false},
		{"emptied", func(t *testing.T, path string, _ []byte) { check(t, os.Truncate(path, 0)) }, false},
		{"of an earlier time", func(t *testing.T, path string, earlier []byte) {
			check(t, os.WriteFile(path, earlier, 0o600))
		}, false},
		{"cut off behind its head", func(t *testing.T, path string, _ []byte) {
			check(t, os.Truncate(path, int64(3*os.Getpagesize())))
		}, true},
		{"cut to a byte", func(t *testing.T, path string, _ []byte) { check(t, os.Truncate(path, 1)) }, true},
		{"garbage", func(t *testing.T, path string, _ []byte) {
			check(t, os.WriteFile(path, bytes.Repeat([]byte("garbage "), 4<<10), 0o600))
		}, true},
		{"garbage after its head", func(t *testing.T, path string, _ []byte) {
			content, err := os.ReadFile(path)
			check(t, err)
			page := os.Getpagesize()
			for i := 2 * page; i < len(content); i++ {
				content[i] = byte(i * 7)
			}
			check(t, os.WriteFile(path, content, 0o600))
		}, true},
		{"a directory", func(t *testing.T, path string, _ []byte) {
			check(t, os.Remove(path))
			check(t, os.Mkdir(path, 0o700))
		}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFamily(t)
			body := "\n  env = { " + f.env() + ", FAULT_GRANDCHILD = %q }\n  stop {\n    grace = \"300ms\"\n  }\n"
			opts := faultConfig(t, hostOptions{stateDir: newStateDir(t), outliveHost: true},
				fault("a", fmt.Sprintf(body, "stubborn daemon")), fault("b", fmt.Sprintf(body, "plain")))
			registry := filepath.Join(opts.stateDir, "registry.db")
			h := startHost(t, opts)
			h.waitReady()
			first := append(f.wait("plugin", 2), f.wait("grandchild", 2)...)
			earlier, err := os.ReadFile(registry)
			check(t, err)
			for _, name := range []string{"a", "b"} {
				if _, stderr, code := plughost(t, "restart", name, "--state-dir", h.stateDir); code != 0 {
					t.Fatalf("plughost restart ended with status %d: %s", code, stderr)
				}
			}
			f.wait("grandchild", 4)
			old := slices.DeleteFunc(f.pids(), func(pid int) bool { return slices.Contains(first, pid) || !alive(pid) })
			if len(old) != 4 {
				t.Fatalf("%v are alive, want 4 processes", old)
			}
			h.kill()
			f.checkAlive("without its host", old)
			test.damage(t, registry, earlier)

			h = startHost(t, opts)
			h.waitReady()
			for _, pid := range old {
				if alive(pid) {
					t.Errorf("pid %d of before is still there", pid)
				}
			}
			if aside, _ := filepath.Glob(registry + ".damaged-*"); len(aside) > 0 != test.told {
				t.Errorf("moved aside: %v", aside)
			}
			h.stop()
			if n := strings.Count(h.output.String(), "reclaimed what an earlier host left"); n != 2 {
				t.Errorf("the host tells of %d instances that it reclaimed, want 2", n)
			}
			if n := strings.Count(h.output.String(), "which the registry has lost"); n != 2 {
				t.Errorf("the host tells of %d instances that the registry had lost, want 2", n)
			}
			if told := strings.Contains(h.output.String(), "the registry could not be read and was moved aside"); told != test.told {
				t.Errorf("the host tells of a registry that it could not read: %v, want %v", told, test.told)
			}
			f.checkGone("after the last host's end")
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestReusedAddressIsLeftAlone has somebody else listen where a plugin of a
// host that is gone listened.
func TestReusedAddressIsLeftAlone(t *testing.T) {
	t.Parallel()
	opts := faultConfig(t, hostOptions{stateDir: newStateDir(t), outliveHost: true}, fault("f", ""))
	h := startHost(t, opts)
	h.waitReady()
	old := h.status()["f"]
	h.kill()
	killPID(t, old.PID)
	eventually(t, "the plugin is gone", func() bool { return !alive(old.PID) })
	address := pluginSocket(t, opts.stateDir)
	check(t, os.Remove(address))
	log := filepath.Join(t.TempDir(), "happened")
	stranger := startHelper(t, "watch", log, address)

	h = startHost(t, opts)
	h.waitReady()
	if fresh := h.status()["f"]; fresh.Instance == old.Instance || fresh.Restarts != 0 {
		t.Errorf("the service runs as %+v, want a fresh start", fresh)
	}
	h.connect(t, "f")
	h.stop()
	if !alive(stranger.Process.Pid) {
		t.Error("the stranger is gone")
	}
	if happened, err := os.ReadFile(log); err != nil || len(happened) > 0 {
		t.Errorf("the stranger had to do with the host: %q (%v)", happened, err)
	}
}

// pluginSocket is the one socket of the one plugin of an installation.
func pluginSocket(t *testing.T, stateDir string) string {
	t.Helper()
	var found []string
	paths, _ := filepath.Glob(filepath.Join(stateDir, "run", "*", "*"))
	for _, path := range paths {
		if info, err := os.Lstat(path); err == nil && info.Mode().Type() == os.ModeSocket {
			found = append(found, path)
		}
	}
	if len(found) != 1 {
		t.Fatalf("the plugin's socket is not to be found: %v among %v", found, paths)
	}
	return found[0]
}

// TestTwoInstallationsNeverTouchEachOther runs the same configuration twice,
// and has all happen to one of them that makes a host reclaim.
func TestTwoInstallationsNeverTouchEachOther(t *testing.T) {
	t.Parallel()
	const body = "\n  env = { FAULT_GRANDCHILD = \"daemon\" }\n"
	services := []string{fault("a", body), fault("b", body), fault("c", body)}
	ours := faultConfig(t, hostOptions{stateDir: newStateDir(t), outliveHost: true}, services...)
	theirs := faultConfig(t, hostOptions{stateDir: newStateDir(t), outliveHost: true}, services...)
	h, other := startHost(t, ours), startHost(t, theirs)
	h.waitReady()
	other.waitReady()
	before := other.status()
	var neighbours []int
	for name, status := range before {
		processes := instanceProcesses(t, status.Instance)
		if len(processes) != 2 {
			t.Fatalf("%s has %d processes, want the plugin and its grandchild", name, len(processes))
		}
		for _, p := range processes {
			neighbours = append(neighbours, p.PID)
		}
	}
	checkNeighbours := func(when string) {
		t.Helper()
		for _, pid := range neighbours {
			if !alive(pid) {
				t.Errorf("%s: pid %d of the other installation is gone", when, pid)
			}
		}
		for name, status := range other.status() {
			if status != before[name] {
				t.Errorf("%s: the other's %s is %+v, want %+v as before", when, name, status, before[name])
			}
		}
	}

	h.kill()
	h = startHost(t, ours)
	h.waitReady()
	checkNeighbours("after a crash")

	h.kill()
	check(t, os.Remove(filepath.Join(ours.stateDir, "registry.db")))
	h = startHost(t, ours)
	h.waitReady()
	checkNeighbours("after a crash without a registry")

	// As after a copy of the other's state, or a restore to the wrong place.
	h.kill()
	registry, err := os.ReadFile(filepath.Join(theirs.stateDir, "registry.db"))
	check(t, err)
	check(t, os.WriteFile(filepath.Join(ours.stateDir, "registry.db"), registry, 0o600))
	h = startHost(t, ours)
	h.waitReady()
	checkNeighbours("after a crash with the other's registry")

	h.kill()
	if _, stderr, code := plughost(t, "orphans", "--reclaim", "--state-dir", ours.stateDir); code != 0 {
		t.Errorf("plughost orphans --reclaim ended with status %d: %s", code, stderr)
	}
	checkNeighbours("after orphans --reclaim")
	checkNothingRuns(t, ours.stateDir)

	h = startHost(t, ours)
	h.waitReady()
	h.stop()
	checkNeighbours("after a stop")
	checkNothingLeft(t, ours.stateDir)
}

// TestHostIsKilledDuringItsShutdown kills a host that is stopping services.
func TestHostIsKilledDuringItsShutdown(t *testing.T) {
	t.Parallel()
	f := newFamily(t)
	body := "\n  env = { " + f.env() + ", FAULT_GRANDCHILD = \"stubborn daemon\" }\n  stop {\n    grace = %q\n  }\n"
	stateDir := newStateDir(t)
	services := func(grace string) []string {
		return []string{
			fault("base", fmt.Sprintf(body, grace)),
			fault("dependant", fmt.Sprintf(body, grace)+"\n  depends_on = [service.mcp.base]\n"),
		}
	}
	h := startFaults(t, hostOptions{stateDir: stateDir, outliveHost: true}, services("1h")...)
	h.waitReady()
	old := f.wait("grandchild", 2)
	h.signal(syscall.SIGTERM)
	f.wait("signalled", 1) // one grandchild, of the dependant
	h.kill()
	f.checkAlive("after the host's death", old)

	h = startFaults(t, hostOptions{stateDir: stateDir}, services("300ms")...)
	h.waitReady()
	for _, pid := range old {
		if alive(pid) {
			t.Errorf("pid %d of before is still there", pid)
		}
	}
	h.stop()
	f.checkGone("after the next host's end")
	checkNothingLeft(t, stateDir)
}

// TestAHurryEndsAStartThatHangs tells a host twice to end that waits for a
// session with a plugin, which has left a process that does not want to end.
func TestAHurryEndsAStartThatHangs(t *testing.T) {
	t.Parallel()
	f := newFamily(t)
	h := startFaults(t, hostOptions{}, fault("f", fmt.Sprintf(
		"  stop {\n    grace = \"1h\"\n  }\n  env = { %s, FAULT_DEAF = \"1\", FAULT_GRANDCHILD = \"stubborn daemon\" }\n", f.env())))
	f.wait("grandchild", 1)
	f.checkAlive("before", f.wait("plugin", 1))
	h.waitState("f", "starting")
	eventually(t, "a session is asked for", func() bool {
		return slices.ContainsFunc(h.logged(t, "f", "stderr"), func(e logEntry) bool { return e.Message == "does not answer initialize" })
	})
	h.signal(syscall.SIGTERM)
	h.waitOutput("stopping the services")
	h.signal(syscall.SIGTERM)
	h.waitExit()
	f.checkGone("after the host")
}

// TestHostIsStoppedWhileItReclaims stops a host that is waiting for orphans to
// end, and has an hour for that.
func TestHostIsStoppedWhileItReclaims(t *testing.T) {
	t.Parallel()
	f := newFamily(t)
	opts := faultConfig(t, hostOptions{stateDir: newStateDir(t), outliveHost: true}, fault("f", fmt.Sprintf(`
  env = { %s, FAULT_GRANDCHILD = "stubborn daemon" }
  stop {
    grace = "1h"
  }
`, f.env())))
	h := startHost(t, opts)
	h.waitReady()
	f.wait("grandchild", 1)
	h.kill()

	h = startHost(t, opts)
	f.checkAlive("asked to end", f.wait("signalled", 1))
	h.stop()
	f.checkGone("after the host's end")
	checkNothingLeft(t, opts.stateDir)
}
