package launch

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// openFiles counts the descriptors that are open, and says how many may be.
func openFiles() (open, limit int, known bool) {
	var rlimit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &rlimit) != nil || rlimit.Cur > math.MaxInt32 {
		return 0, 0, false
	}
	limit = int(rlimit.Cur)
	// From Linux 6.2 on the directory's size is their number; before, it is 0.
	if info, err := os.Stat("/proc/self/fd"); err == nil && info.Size() > 0 {
		return int(info.Size()), limit, true
	}
	open, known = listedFiles(limit)
	return open, limit, known
}

// listedFiles counts the descriptors one by one.
func listedFiles(limit int) (open int, known bool) {
	dir, err := os.Open("/proc/self/fd")
	if errors.Is(err, unix.EMFILE) {
		return limit, true
	}
	if err != nil {
		return 0, false
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	return len(names) - 1, err == nil // without dir itself
}
