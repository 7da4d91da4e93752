package installation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// maxSocketPath is what fits into sockaddr_un.sun_path of every system:
// 104 bytes on macOS and the BSDs, 108 on Linux, with the final NUL.
const maxSocketPath = 103

// longestName is the longest path below the run directory: a plugin makes its
// socket in its instance's directory, with up to 10 digits of os.CreateTemp at
// the end of its name. (Package launch sees to it that go-plugin puts no
// further directory in between.)
const longestName = instanceDirLen + len("/plugin") + 10

// instanceDirLen is the length of an instance's directory name: the random
// end of its UUIDv7.
const instanceDirLen = 12

// RunDir is the directory of the sockets: run/ in the state directory, or a
// short one under the system's temporary directory where the path of that is
// too long for a socket's address. It is the same for everybody: $TMPDIR, which
// a service manager and a user's shell set differently, does not matter.
func (p Paths) RunDir() string {
	dir := filepath.Join(p.Dir, "run")
	if len(dir)+1+longestName <= maxSocketPath {
		return dir
	}
	return filepath.Join(tempDir(), "plughost-"+strings.ReplaceAll(p.ID, "-", "")[:16])
}

func tempDir() string {
	if runtime.GOOS == "windows" {
		return os.TempDir()
	}
	return "/tmp"
}

// ControlSocket is the path of the control API's socket.
func (p Paths) ControlSocket() string { return filepath.Join(p.RunDir(), "control.sock") }

// InstanceDir is the path of an instance's directory, which MakeInstanceDir
// makes. instance is its UUID.
func (p Paths) InstanceDir(instance string) string {
	if foreign := filepath.Join(p.ForeignRunDir(), instanceName(instance)); isDir(foreign) {
		return foreign
	}
	return filepath.Join(p.RunDir(), instanceName(instance))
}

func instanceName(instance string) string {
	name := strings.ReplaceAll(instance, "-", "")
	if len(name) > instanceDirLen {
		name = name[len(name)-instanceDirLen:]
	}
	return name
}

// PrepareRunDir makes the run directory, of mode 0700, and empties it of what
// a host that is gone left there. keep says of an instance directory's path
// that it is still needed.
func (i *Installation) PrepareRunDir(keep func(path string) bool) error {
	dir := i.RunDir()
	if err := makePrivate(dir); err != nil {
		return fmt.Errorf("cannot make the directory for sockets: %w", err)
	}
	if foreign := i.ForeignRunDir(); isOurs(foreign) {
		if err := clearDir(foreign, keep); err != nil {
			return err
		}
	}
	return clearDir(dir, keep)
}

func clearDir(dir string, keep func(path string) bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("cannot clear the directory for sockets: %w", err)
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if keep(path) {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("cannot clear the directory for sockets: %w", err)
		}
	}
	return nil
}

// RemoveRunDir removes the run directories that are outside the state directory
// and hold nothing that is still needed. It is called when the host ends, so
// that nothing is left in /tmp or /run.
func (i *Installation) RemoveRunDir() error {
	var err error
	if foreign := i.ForeignRunDir(); isOurs(foreign) {
		err = removeEmpty(foreign)
	}
	if dir := i.RunDir(); filepath.Dir(dir) != i.Dir {
		err = errors.Join(err, removeEmpty(dir))
	}
	return err
}

func removeEmpty(dir string) error {
	err := os.Remove(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) { // gone, or not empty
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot remove the directory for sockets: %w", err)
	}
	return nil
}

// MakeInstanceDir makes the directory of an instance, of mode 0700.
func (i *Installation) MakeInstanceDir(instance string) (string, error) {
	dir := i.InstanceDir(instance)
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) { // somebody has removed the run directory
		if err = makePrivate(i.RunDir()); err == nil {
			err = os.Mkdir(dir, 0o700)
		}
	}
	if err != nil {
		return "", fmt.Errorf("cannot make the instance's directory: %w", err)
	}
	return dir, nil
}

// makePrivate makes dir, or believes in one that is there only if it is a
// directory that nobody else can write: in /tmp others may make it first.
func makePrivate(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err == nil || !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is there and is no directory: remove it", dir)
	}
	if !ownedByUs(info) {
		return fmt.Errorf("%s belongs to somebody else: remove it", dir)
	}
	if info.Mode().Perm() != 0o700 {
		return os.Chmod(dir, 0o700)
	}
	return nil
}
