package shared

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// readEnd opens the other end of the pipe that a descriptor writes to. It is -1
// if that is no pipe, or cannot be opened: without /proc, or as another user than
// the one whom the pipe was given to.
func readEnd(fd int) int {
	var stat unix.Stat_t
	if unix.Fstat(fd, &stat) != nil || stat.Mode&unix.S_IFMT != unix.S_IFIFO {
		return -1
	}
	// What is opened by this name is the pipe, whichever end the descriptor is: see
	// proc_pid_fd(5).
	end, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return end
}
