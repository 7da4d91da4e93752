//go:build unix

package test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// controlGroups are the control groups of an installation, where the system has
// them.
func controlGroups(t *testing.T, installation string) []string {
	t.Helper()
	var found []string
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(mounts)) {
		before, after, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(before); strings.HasPrefix(after, "cgroup2 ") && len(fields) > 4 {
			err := filepath.WalkDir(fields[4], func(path string, entry fs.DirEntry, err error) error {
				if err == nil && entry.IsDir() && strings.HasPrefix(entry.Name(), "plughost."+installation+".") {
					found = append(found, path)
					return fs.SkipDir
				}
				if errors.Is(err, fs.ErrNotExist) {
					return nil // another test's, removed meanwhile
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
	return found
}

// endGroups ends what is left in the control groups of an installation.
func endGroups(t *testing.T, installation string) {
	t.Helper()
	for _, dir := range controlGroups(t, installation) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		eventually(t, dir+" is removed", func() bool {
			err := os.Remove(dir)
			return err == nil || errors.Is(err, fs.ErrNotExist) // systemd was faster
		})
	}
}

// findings are what doctor finds good, by name.
func findings(t *testing.T) map[string]bool {
	t.Helper()
	stdout, _, _ := plughost(t, "doctor", "--json", "--state-dir", t.TempDir())
	var diagnosis struct {
		Findings []struct {
			Name string
			Good bool
		}
	}
	if err := json.Unmarshal([]byte(stdout), &diagnosis); err != nil {
		t.Fatal(err)
	}
	good := make(map[string]bool)
	for _, f := range diagnosis.Findings {
		good[f.Name] = f.Good
	}
	return good
}

// needControlGroups skips a test where the host cannot make any.
func needControlGroups(t *testing.T) {
	t.Helper()
	if !findings(t)["control groups"] {
		t.Skip("there are no control groups here")
	}
}

// A daemon with an empty environment has nothing left of what proves whose it
// is but its control group.
func TestDaemonWithoutMarkerEndsWithItsService(t *testing.T) {
	needControlGroups(t)
	f := newFamily(t)
	h := startFaults(t, hostOptions{}, fault("f", relativeBody("stubborn scrubbed daemon", f)))
	h.waitReady()
	old := f.wait("grandchild", 1)
	f.checkAlive("a daemon", old)
	if _, stderr, code := plughost(t, "stop", "f", "--state-dir", h.stateDir); code != 0 {
		t.Errorf("plughost stop ended with status %d: %s", code, stderr)
	}
	f.checkGone("after a stop")
	if left := controlGroups(t, installationID(t, h.stateDir)); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

func TestDaemonWithoutMarkerDoesNotOutliveTheNextStart(t *testing.T) {
	needControlGroups(t)
	for _, damaged := range []bool{false, true} {
		t.Run(fmt.Sprintf("registry lost %t", damaged), func(t *testing.T) {
			f := newFamily(t)
			opts := faultConfig(t, hostOptions{stateDir: newStateDir(t)}, fault("f", relativeBody("scrubbed daemon", f)))
			h := startHost(t, opts)
			h.waitReady()
			old := f.wait("grandchild", 1)
			before := h.status()["f"]
			h.kill()
			f.checkAlive("a daemon", old)
			if damaged {
				if err := os.Remove(filepath.Join(h.stateDir, "registry.db")); err != nil {
					t.Fatal(err)
				}
			}
			h = startHost(t, opts)
			h.waitReady()
			for _, pid := range append(old, before.PID) {
				if alive(pid) {
					t.Errorf("pid %d has outlived its host and the start of the next", pid)
				}
			}
			groups := controlGroups(t, installationID(t, h.stateDir))
			if len(groups) != 1 || slices.ContainsFunc(groups, func(dir string) bool { return strings.HasSuffix(dir, before.Instance) }) {
				t.Errorf("%q are the control groups, want one, of the new instance", groups)
			}
			h.stop()
			f.checkGone("after the host's end")
		})
	}
}

// The copy that runs is in memory, so it does not matter that nobody else can
// reach the directory of the binaries.
func TestServiceOfAnotherUserWithAChecksum(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a service as another user")
	}
	content, err := os.ReadFile(filepath.Join(binaries, "faultplugin"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	body := fmt.Sprintf("checksum = \"sha256:%s\"\n user = \"nobody\"\n dir = \"/\"\n", hex.EncodeToString(sum[:]))
	wrong := fmt.Sprintf("checksum = \"sha256:%s\"\n", strings.Repeat("0", 64))
	h := startFaults(t, hostOptions{}, fault("f", body), fault("g", wrong))
	if status := h.waitState("g", "failed"); status.Restarts != 0 ||
		!strings.Contains(status.LastError, strings.Repeat("0", 64)) || !strings.Contains(status.LastError, hex.EncodeToString(sum[:])) {
		t.Errorf("g is %+v, want that it failed at once, and both digests", status)
	}
	before := h.waitState("f", "ready")
	uid := ownerOf(t, before.PID)
	if uid == 0 {
		t.Error("the service runs as root")
	}
	if _, stderr, code := plughost(t, "restart", "f", "--state-dir", h.stateDir); code != 0 {
		t.Fatalf("plughost restart ended with status %d: %s", code, stderr)
	}
	after := h.waitState("f", "ready")
	stdout, stderr, code := plughost(t, "identify", fmt.Sprint(after.PID), "--state-dir", h.stateDir)
	if code != 0 || !strings.Contains(stdout, after.Instance) {
		t.Errorf("plughost identify ended with status %d: %s%s", code, stdout, stderr)
	}
	// A host that dies takes it along, and the next one takes what it left.
	h.kill()
	eventually(t, "the plugin has died with the host", func() bool { return !alive(after.PID) })
	h = startHost(t, hostOptions{config: h.cmd.Args[3], gateway: strings.TrimPrefix(h.base, "http://"), stateDir: h.stateDir})
	h.waitState("f", "ready")
	h.stop()
	short := strings.ReplaceAll(installationID(t, h.stateDir), "-", "")[:16]
	for _, dir := range []string{"/run", "/var/run"} {
		if _, err := os.Lstat(filepath.Join(dir, "plughost-"+short)); err == nil {
			t.Errorf("plughost-%s is left in %s", short, dir)
		}
	}
}

// ownerOf is the user that a process runs as.
func ownerOf(t *testing.T, pid int) int {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		var uid int
		if n, _ := fmt.Sscanf(line, "Uid:\t%d", &uid); n == 1 {
			return uid
		}
	}
	t.Fatalf("/proc/%d/status names no user", pid)
	return 0
}

func TestALimitThatCannotBeSetIsToldOnce(t *testing.T) {
	body := "limits {\n memory = \"512MiB\"\n cpus = 4\n processes = 200\n open_files = 200\n nice = 19\n }\n"
	h := startFaults(t, hostOptions{}, fault("f", body))
	h.waitReady()
	for range 2 {
		if _, stderr, code := plughost(t, "restart", "f", "--state-dir", h.stateDir); code != 0 {
			t.Fatalf("plughost restart ended with status %d: %s", code, stderr)
		}
	}
	h.stop()
	told := strings.Count(h.output.String(), "a limit cannot be set")
	if all := findings(t)["limits"]; all && told != 0 || !all && (told < 1 || told > 3) {
		t.Errorf("it is told %d times that a limit cannot be set, want once for each that cannot", told)
	}
}
