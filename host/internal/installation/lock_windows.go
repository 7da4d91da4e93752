package installation

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// tryLock reports whether it got the lock. The locked byte lies beyond the
// content, since a lock on Windows keeps others from reading what it covers.
func tryLock(f *os.File) (bool, error) {
	const beyond = 1 << 30
	err := windows.LockFileEx(windows.Handle(f.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{Offset: beyond})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

// syncDir does nothing: Windows has no such call for directories.
func syncDir(string) error { return nil }
