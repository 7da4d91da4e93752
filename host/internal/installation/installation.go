// Package installation is the state directory of one plughost installation:
// the lock that keeps a second host out, the installation's id, its keys, and
// where everything else that it keeps lies.
//
// The directory holds
//
//	lock           held by the host that runs; its pid for others to read
//	installation   the installation's id, a UUID made with the directory
//	registry.db    what was launched (package registry)
//	ca.pem ca.key  the certificate authority of host and plugins
//	logs/          a log per service
//	run/           sockets: a directory per instance, and the control API's
//
// When its path is too long for a socket address, run/ is a directory in /tmp
// instead, named after the installation's id. Instances that run as another
// user have theirs in one of that name in /run.
package installation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

const (
	lockFile     = "lock"
	idFile       = "installation"
	registryFile = "registry.db"
	logDir       = "logs"
)

// LockedError says that another host runs on the state directory.
type LockedError struct {
	Dir string
	// PID is the other host's, or 0 if it could not be read.
	PID int
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("another plughost host is running on %s", e.Dir)
	}
	return fmt.Sprintf("another plughost host is running on %s: pid %d", e.Dir, e.PID)
}

// NotFoundError says that a directory is no state directory (yet).
type NotFoundError struct{ Dir string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("%s is no plughost state directory: no host was ever started there", e.Dir)
}

// Paths says where an installation keeps things. It is what a program that is
// not the host, such as a command line, can know of it.
type Paths struct {
	// ID is the installation's UUID.
	ID string
	// Dir is the state directory, absolute.
	Dir string
}

// Registry is the path of the registry's database.
func (p Paths) Registry() string { return filepath.Join(p.Dir, registryFile) }

// Logs is the directory of the services' logs.
func (p Paths) Logs() string { return filepath.Join(p.Dir, logDir) }

// LastHost is the pid of the host that locked the directory last, or 0. It may be
// gone, and the pid another's.
func (p Paths) LastHost() int { return lockedBy(filepath.Join(p.Dir, lockFile)) }

// Installation is a state directory that this process has locked.
type Installation struct {
	Paths
	lock *os.File
}

// Open makes the state directory if there is none, locks it for the life of
// this process (or until Close) and reads or makes the installation's id. If
// another host runs on the directory the error is a *LockedError.
func Open(dir string) (*Installation, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot open the state directory: %w", err)
	}
	// Keys, sockets and logs are nobody else's business.
	for _, d := range []string{dir, filepath.Join(dir, logDir)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("cannot open the state directory: %w", err)
		}
	}
	lock, err := acquire(dir)
	if err != nil {
		return nil, err
	}
	id, err := readOrMakeID(dir)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &Installation{Paths: Paths{ID: id, Dir: dir}, lock: lock}, nil
}

// Find returns the paths of the installation in dir without locking it. The
// error is a *NotFoundError where there is none.
func Find(dir string) (Paths, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Paths{}, fmt.Errorf("cannot find the state directory: %w", err)
	}
	id, err := readID(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Paths{}, &NotFoundError{Dir: dir}
	case err != nil:
		return Paths{}, err
	}
	return Paths{ID: id, Dir: dir}, nil
}

// Close unlocks the directory.
func (i *Installation) Close() error {
	return i.lock.Close()
}

// acquire locks the directory. The lock is the kernel's, on an open file, so
// it is gone with the process, in whatever way that ends; the pid in the file
// is only for the message that others print.
func acquire(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the state directory: %w", err)
	}
	locked, err := tryLock(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot lock the state directory: %w", err), f.Close())
	}
	if !locked {
		return nil, errors.Join(&LockedError{Dir: dir, PID: lockedBy(path)}, f.Close())
	}
	content := []byte(strconv.Itoa(os.Getpid()) + "\n")
	if _, err := f.WriteAt(content, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot lock the state directory: %w", err), f.Close())
	}
	if err := f.Truncate(int64(len(content))); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot lock the state directory: %w", err), f.Close())
	}
	return f, nil
}

// lockedBy is the pid in a lock file, or 0.
func lockedBy(path string) int {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(content)))
	return pid
}

func readOrMakeID(dir string) (string, error) {
	id, err := readID(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	made, err := uuid.NewRandom()
	if err != nil {
		return "", fmt.Errorf("cannot make the installation's id: %w", err)
	}
	if err := writeFile(filepath.Join(dir, idFile), []byte(made.String()+"\n")); err != nil {
		return "", fmt.Errorf("cannot write the installation's id: %w", err)
	}
	return made.String(), nil
}

// readID refuses an id that is no UUID rather than make a new one: under
// another id the children that may still live would be strangers.
func readID(dir string) (string, error) {
	path := filepath.Join(dir, idFile)
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("cannot read the installation's id: %w", err)
	}
	id, err := uuid.Parse(strings.TrimSpace(string(content)))
	if err != nil {
		return "", fmt.Errorf("cannot read the installation's id: %s holds no UUID (%w): restore it, or remove it to begin a new installation once no process of this one is left", path, err)
	}
	return id.String(), nil
}

// writeFile writes a file of mode 0600 whole or not at all, and durably.
func writeFile(path string, content []byte) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.Write(content); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}
