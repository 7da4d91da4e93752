//go:build unix && !linux

package launch

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// SealDescriptors keeps descriptors that this process inherited from whoever
// started it, other than the standard ones, from being inherited by its own
// children. Go opens its own close-on-exec.
func SealDescriptors() error {
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		return fmt.Errorf("cannot seal inherited descriptors: %w", err)
	}
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
