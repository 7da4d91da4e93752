package installation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Nobody is the group that Admit admits nobody with.
const Nobody = -1

// Admit lets the members of a group reach the control socket: they may pass
// through the state directory and the run directory, without seeing what else
// is there, and learn the installation's id. Every other file has a mode of its
// own that keeps them out. With Nobody what an earlier host admitted ends.
func (i *Installation) Admit(gid int) error {
	const passable, readable fs.FileMode = 0o710, 0o640
	err := errors.Join(
		admit(i.Dir, gid, 0o700, passable),
		admit(i.RunDir(), gid, 0o700, passable),
		admit(filepath.Join(i.Dir, idFile), gid, 0o600, readable))
	if err != nil {
		return fmt.Errorf("cannot let group %d in: %w", gid, err)
	}
	return nil
}

// admit gives what is at a path to a group, or takes it back if it was given.
func admit(path string, gid int, closed, open fs.FileMode) error {
	if gid != Nobody {
		return errors.Join(os.Lchown(path, -1, gid), os.Chmod(path, open))
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Perm() != open {
		return err
	}
	return os.Chmod(path, closed)
}
