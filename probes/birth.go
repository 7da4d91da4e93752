package probes

import "fmt"

// Birth is what the kernel says of a process that no other process shares.
// Two records of the same process, taken at any times and by any processes of
// the same pid namespace, are equal under ==.
type Birth struct {
	// BootID is the random id that Linux makes at each boot; on other systems
	// whatever tells one boot from the next.
	BootID string `json:"boot_id"`
	PID    int    `json:"pid"`
	// Start is when the process started. On Linux it counts clock ticks since
	// the boot (100 a second, whatever the machine), on macOS microseconds since
	// 1970 and on FreeBSD since the boot; an exec does not change it. On Windows
	// it counts steps of 100 ns since 1601.
	Start uint64 `json:"start"`
	// PidfdInode is the inode number of the process's pidfds, which Linux 6.9
	// and later give to no other process until the next boot. It is 0 where it
	// is not available; the 10 ms of Start then have to do.
	PidfdInode uint64 `json:"pidfd_inode,omitempty"`
}

// IsZero reports whether the record is empty, that is, not known.
func (b Birth) IsZero() bool { return b == Birth{} }

// Same reports whether both are records of one process. Records that lack the
// boot, the pid or the start are the same as none. The inode counts only if
// both have it.
func (b Birth) Same(o Birth) bool {
	if b.BootID == "" || b.PID <= 0 || b.Start == 0 {
		return false
	}
	if b.PidfdInode != 0 && o.PidfdInode != 0 && b.PidfdInode != o.PidfdInode {
		return false
	}
	return b.BootID == o.BootID && b.PID == o.PID && b.Start == o.Start
}

// difference names the first field in which two records differ.
func (b Birth) difference(o Birth) string {
	switch {
	case b.BootID != o.BootID:
		return "it is of another boot"
	case b.PID != o.PID:
		return fmt.Sprintf("its pid is %d, not %d", b.PID, o.PID)
	case b.Start != o.Start:
		return fmt.Sprintf("it started at %d, not %d", b.Start, o.Start)
	case b.PidfdInode != o.PidfdInode && b.PidfdInode != 0 && o.PidfdInode != 0:
		return fmt.Sprintf("its pidfd inode is %d, not %d", b.PidfdInode, o.PidfdInode)
	}
	return "the record is incomplete"
}
