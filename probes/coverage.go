package probes

// Capabilities is what the running system lends to this package.
type Capabilities struct {
	OS      string `json:"os"`
	Release string `json:"release,omitempty"` // of the kernel

	// Supported is false where every process is unknown and nothing is ever
	// signalled.
	Supported bool `json:"supported"`
	// Hold: a process can be held, so that a signal can't hit its successor.
	Hold bool `json:"hold"`
	// UniqueBirth: birth records hold a number that is never given anew, the
	// pidfd's inode on Linux 6.9 and later.
	UniqueBirth bool `json:"unique_birth"`
	// HeldGroup: a group can be signalled after its leader was reaped. On Windows
	// that is the leader's descendants.
	HeldGroup bool `json:"held_group"`
	// Environ: the environment of processes of the same user can be read.
	Environ bool `json:"environ"`
	// AllUsers: so can that of other users' processes.
	AllUsers bool `json:"all_users"`
	// Sockets: listening sockets are asked from the kernel directly.
	Sockets bool `json:"sockets"`
	// Notes explain what is missing, a sentence each.
	Notes []string `json:"notes,omitempty"`
}

// Coverage asks the running system what it lends to this package, anew at each
// call.
func Coverage() Capabilities { return probeCapabilities() }
