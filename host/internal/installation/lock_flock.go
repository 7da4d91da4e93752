//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package installation

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock reports whether it got the lock. flock(2) belongs to the open file
// description, which children do not inherit since Go opens files close-on-exec.
func tryLock(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// syncDir makes a rename in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
