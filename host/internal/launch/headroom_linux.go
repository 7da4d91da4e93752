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
	dir, err := os.Open("/proc/self/fd")
	if errors.Is(err, unix.EMFILE) {
		return limit, limit, true
	}
	if err != nil {
		return 0, 0, false
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	return len(names) - 1, limit, err == nil // without dir itself
}
