//go:build unix

package installation

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// pathsOfLength are those of a state directory whose path is so long. Nothing
// is made of it.
func pathsOfLength(n int) Paths {
	return Paths{ID: uuid.NewString(), Dir: "/" + strings.Repeat("d", n-1)}
}

func newInstance(t *testing.T) string {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	return id.String()
}

func TestSocketPathsAlwaysFit(t *testing.T) {
	instance := newInstance(t)
	for n := 2; n <= 300; n++ {
		p := pathsOfLength(n)
		for what, path := range map[string]string{
			"control socket": p.ControlSocket(),
			// What os.CreateTemp makes at the longest.
			"plugin's socket": filepath.Join(p.InstanceDir(instance), "plugin4294967295"),
		} {
			if len(path) > maxSocketPath {
				t.Errorf("state directory of %d bytes: the %s has %d: %s", n, what, len(path), path)
			}
		}
	}
}

func TestTheRunDirectoryIsInTheStateDirectoryIfItFits(t *testing.T) {
	inside := func(p Paths) bool { return p.RunDir() == filepath.Join(p.Dir, "run") }
	longest := maxSocketPath - longestName - len("/run/")
	if p := pathsOfLength(longest); !inside(p) {
		t.Errorf("a state directory of %d bytes has its sockets in %s", longest, p.RunDir())
	}
	p := pathsOfLength(longest + 1)
	if inside(p) {
		t.Errorf("a state directory of %d bytes has its sockets in it", longest+1)
	}
	if inside(pathsOfLength(120)) {
		t.Error("a state directory of 120 bytes has its sockets in it")
	}
	// Others find the same place, whatever their environment.
	dir := p.RunDir()
	for _, tmp := range []string{"/var/tmp", "/" + strings.Repeat("t", 100), ""} {
		t.Setenv("TMPDIR", tmp)
		if got := p.RunDir(); got != dir {
			t.Errorf("with TMPDIR=%s it is %s, and was %s", tmp, got, dir)
		}
	}
}

// longInstallation is one whose path has 120 bytes and more.
func longInstallation(t *testing.T) *Installation {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	inst := mustOpen(t, dir)
	t.Cleanup(func() { _ = os.RemoveAll(inst.RunDir()) })
	return inst
}

func keepNothing(string) bool { return false }

func TestSocketsOfALongStateDirectoryWork(t *testing.T) {
	inst := longInstallation(t)
	if err := inst.PrepareRunDir(keepNothing); err != nil {
		t.Fatal(err)
	}
	dir, err := inst.MakeInstanceDir(newInstance(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{inst.RunDir(), dir} {
		if info, err := os.Lstat(d); err != nil || info.Mode().Perm() != 0o700 || !info.IsDir() {
			t.Errorf("%s: %v, %v", d, info.Mode(), err)
		}
	}
	below := filepath.Join(dir, "plugin-dir4294967295")
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{inst.ControlSocket(), filepath.Join(below, "plugin4294967295")} {
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Error(err)
		} else {
			_ = conn.Close()
		}
		_ = l.Close()
	}

	// A directory that is still needed is no error at the host's end.
	if err := inst.RemoveRunDir(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := inst.RemoveRunDir(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(inst.RunDir()); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", inst.RunDir(), err)
		}
	}
}

func TestARunDirectoryInTheStateDirectoryStays(t *testing.T) {
	inst := &Installation{Paths: Paths{ID: uuid.NewString(), Dir: shortDir(t)}}
	if err := inst.PrepareRunDir(keepNothing); err != nil {
		t.Fatal(err)
	}
	if err := inst.RemoveRunDir(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(inst.Dir, "run")); err != nil {
		t.Error(err)
	}
}

// shortDir is a directory whose path is short, unlike those of testing.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(tempDir(), "plughost-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestPreparingEmptiesTheRunDirectoryOfWhatIsNotKept(t *testing.T) {
	inst := longInstallation(t)
	if err := inst.PrepareRunDir(keepNothing); err != nil {
		t.Fatal(err)
	}
	kept, stale := newInstance(t), newInstance(t)
	for _, instance := range []string{kept, stale} {
		dir, err := inst.MakeInstanceDir(instance)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "key.pem"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(inst.ControlSocket(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := inst.PrepareRunDir(func(path string) bool { return path == inst.InstanceDir(kept) })
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(inst.RunDir())
	if err != nil || len(entries) != 1 || filepath.Join(inst.RunDir(), entries[0].Name()) != inst.InstanceDir(kept) {
		t.Errorf("left are %v (%v), want the one that is kept", entries, err)
	}
}

func TestInstanceDirectoriesAreTheirOwn(t *testing.T) {
	inst := longInstallation(t)
	if err := inst.PrepareRunDir(keepNothing); err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for range 100 { // made within a moment, so that they differ at the end only
		dir, err := inst.MakeInstanceDir(newInstance(t))
		if err != nil {
			t.Fatal(err)
		}
		if len(filepath.Base(dir)) != instanceDirLen || seen[dir] {
			t.Errorf("instance directory %s", dir)
		}
		seen[dir] = true
	}
	instance := newInstance(t)
	if _, err := inst.MakeInstanceDir(instance); err != nil {
		t.Fatal(err)
	}
	_, err := inst.MakeInstanceDir(instance)
	wantError(t, err, "cannot make the instance's directory")
}

func TestARunDirectoryOfOthersIsRefused(t *testing.T) {
	tests := []struct {
		name string
		make func(t *testing.T, dir string) error
		want string
	}{
		{"a symbolic link", func(t *testing.T, dir string) error { return os.Symlink(t.TempDir(), dir) }, "is there and is no directory: remove it"},
		{"a symbolic link to nowhere", func(_ *testing.T, dir string) error { return os.Symlink("/nowhere", dir) }, "is there and is no directory: remove it"},
		{"a file", func(_ *testing.T, dir string) error { return os.WriteFile(dir, nil, 0o600) }, "is there and is no directory: remove it"},
		{"a foreign directory", func(t *testing.T, dir string) error {
			if os.Geteuid() != 0 {
				t.Skip("only root can give a directory away")
			}
			return errorOf(os.Mkdir(dir, 0o700), func() error { return os.Chown(dir, 65534, 65534) })
		}, "belongs to somebody else: remove it"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inst := longInstallation(t)
			if err := test.make(t, inst.RunDir()); err != nil {
				t.Fatal(err)
			}
			wantError(t, inst.PrepareRunDir(keepNothing), fmt.Sprintf("%s %s", inst.RunDir(), test.want))
			_ = os.Remove(inst.RunDir())
			if err := inst.PrepareRunDir(keepNothing); err != nil {
				t.Errorf("once it is removed: %v", err)
			}
		})
	}
}

// errorOf is the first error.
func errorOf(err error, next func() error) error {
	if err != nil {
		return err
	}
	return next()
}

func TestARunDirectoryThatOthersCanEnterIsClosed(t *testing.T) {
	inst := longInstallation(t)
	if err := os.Mkdir(inst.RunDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(inst.RunDir(), 0o777); err != nil {
		t.Fatal(err)
	}
	planted := filepath.Join(inst.RunDir(), "planted")
	if err := os.WriteFile(planted, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := inst.PrepareRunDir(keepNothing); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(inst.RunDir()); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v; want mode 0700", info.Mode(), err)
	}
	if _, err := os.Stat(planted); !os.IsNotExist(err) {
		t.Errorf("what was planted is there: %v", err)
	}
}

func TestInstanceDirsOfOtherUsersAreApart(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has instances of other users")
	}
	inst := mustOpen(t, filepath.Join(t.TempDir(), "state"))
	t.Cleanup(func() {
		if err := inst.RemoveRunDir(); err != nil {
			t.Error(err)
		}
		if isDir(inst.ForeignRunDir()) {
			t.Errorf("%s is left", inst.ForeignRunDir())
		}
	})
	kept, gone := newInstance(t), newInstance(t)
	for _, instance := range []string{kept, gone} {
		dir, err := inst.MakeForeignInstanceDir(instance)
		if err != nil {
			t.Fatal(err)
		}
		if got := inst.InstanceDir(instance); got != dir {
			t.Errorf("it is found at %s, and was made at %s", got, dir)
		}
		if len(dir)+len("/plugin4294967295") > maxSocketPath {
			t.Errorf("%s is too long for a socket in it", dir)
		}
	}
	for dir, mode := range map[string]os.FileMode{inst.ForeignRunDir(): 0o711, inst.InstanceDir(kept): 0o700, inst.Dir: 0o700} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s has mode %v (%v), want %v", dir, info.Mode().Perm(), err, mode)
		}
	}
	if err := inst.PrepareRunDir(func(path string) bool { return path == inst.InstanceDir(kept) }); err != nil {
		t.Fatal(err)
	}
	if !isDir(inst.InstanceDir(kept)) || isDir(inst.InstanceDir(gone)) {
		t.Error("what a host that is gone left was not cleared, or what is needed was")
	}
	if err := inst.PrepareRunDir(keepNothing); err != nil {
		t.Fatal(err)
	}
}

// Somebody cleans up: for a path that is too long the directory is in /tmp.
func TestARunDirectoryThatWasRemovedIsMadeAnew(t *testing.T) {
	inst := longInstallation(t)
	if err := inst.PrepareRunDir(keepNothing); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(inst.RunDir()); err != nil {
		t.Fatal(err)
	}
	if _, err := inst.MakeInstanceDir(newInstance(t)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(inst.RunDir()); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("it is made with %v, %v, want mode 0700", info.Mode(), err)
	}
}
