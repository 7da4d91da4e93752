package installation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// systemRunDir is where programs of the system keep sockets. Only root can make
// anything in it.
const systemRunDir = "/run"

// oldSystemRunDir is that where there is no systemRunDir.
const oldSystemRunDir = "/var/run"

// ForeignRunDir is the directory of the instances that run as another user than
// the host, who cannot reach into the state directory. Each may pass through
// it, and nobody but the host can see what is in it.
func (p Paths) ForeignRunDir() string {
	dir := systemRunDir
	if !isDir(dir) {
		dir = oldSystemRunDir
	}
	return filepath.Join(dir, "plughost-"+strings.ReplaceAll(p.ID, "-", "")[:16])
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// isOurs reports whether there is a directory that belongs to this user.
func isOurs(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir() && ownedByUs(info)
}

// MakeForeignInstanceDir makes the directory of an instance that is to run as
// another user, of mode 0700. It is still this process's own.
func (i *Installation) MakeForeignInstanceDir(instance string) (string, error) {
	parent := i.ForeignRunDir()
	if err := makePassable(parent); err != nil {
		return "", fmt.Errorf("cannot make the directory for sockets: %w", err)
	}
	dir := filepath.Join(parent, instanceName(instance))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("cannot make the instance's directory: %w", err)
	}
	return dir, nil
}

// makePassable makes dir, or believes in one that is there only if it is ours.
func makePassable(dir string) error {
	const mode = 0o711
	if err := os.Mkdir(dir, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if !isOurs(dir) {
		return fmt.Errorf("%s is there and is no directory of this user: remove it", dir)
	}
	return os.Chmod(dir, mode) // whatever the umask is
}
