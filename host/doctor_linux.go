package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/plughost/plughost/host/internal/cgroup"
)

// systemFindings say what else of Linux matters to a host with that state
// directory.
func systemFindings(stateDir string) []finding {
	found := []finding{deathSignal(), subreaper()}
	found = append(found, controlGroups()...)
	return append(found, pidNamespace(), openFiles(), stateDirectory(stateDir))
}

// deathSignal looks for PR_SET_PDEATHSIG by reading its value, as old as it is.
func deathSignal() finding {
	var signal int32
	err := prctlGet(unix.PR_GET_PDEATHSIG, &signal)
	return choose("death signal", err == nil,
		"PR_SET_PDEATHSIG", "the kernel ends children when the host dies, however that happens",
		fmt.Sprintf("no PR_SET_PDEATHSIG (%v)", err), "children end by the lifeline if they use the SDK; others stay until the next host ends them")
}

func subreaper() finding {
	var value int32
	err := prctlGet(unix.PR_GET_CHILD_SUBREAPER, &value)
	return choose("subreaper", err == nil,
		"PR_SET_CHILD_SUBREAPER", "what services leave behind becomes the host's child, which reaps it",
		fmt.Sprintf("no PR_SET_CHILD_SUBREAPER (%v)", err), "what services leave behind goes to init; it is found by its marker all the same")
}

// prctlGet reads a setting of prctl(2) that it writes to an address.
func prctlGet(option int, value *int32) error {
	_, _, errno := unix.Syscall(unix.SYS_PRCTL, uintptr(option), uintptr(unsafe.Pointer(value)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// controlGroups says whether a host started here could give instances control
// groups, and limit them.
func controlGroups() []finding {
	const groups, limits = "control groups", "limits"
	tree, err := cgroup.Open(uuid.NewString()) // which changes nothing
	if err != nil {
		return []finding{
			{groups, false, err.Error(), "a process that gives up its marker, its session and its parent is not found when its service stops"},
			{limits, false, "no control groups", "limits of memory, processors and processes cannot be set; those of open files and priority can"},
		}
	}
	missing := tree.Missing(cgroup.Limits{Memory: 1, CPUs: 1, Processes: 1})
	return []finding{
		{groups, true, "cgroup v2, writable at " + tree.Base(), "each instance gets one, and is ended whole whatever its processes do"},
		choose(limits, len(missing) == 0,
			"memory, processors and processes", "services can be limited",
			reasons(missing), "a service starts without a limit that cannot be set"),
	}
}

// reasons are what keeps limits from being set, and each remedy once.
func reasons(missing []error) string {
	var words []string
	for _, err := range missing {
		var unavailable *cgroup.UnavailableError
		if !errors.As(err, &unavailable) {
			words = append(words, err.Error())
			continue
		}
		words = append(words, unavailable.What+": "+unavailable.Reason)
	}
	for _, err := range missing {
		var unavailable *cgroup.UnavailableError
		if errors.As(err, &unavailable) && unavailable.Remedy != "" && !slices.Contains(words, unavailable.Remedy) {
			words = append(words, unavailable.Remedy)
		}
	}
	return strings.Join(words, "; ")
}

func pidNamespace() finding {
	const name = "pid namespace"
	content, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return finding{name, false, err.Error(), "whether this is a container cannot be told"}
	}
	for line := range strings.Lines(string(content)) {
		if pids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			if n := len(strings.Fields(pids)); n > 1 {
				return finding{name, true, fmt.Sprintf("nested, %d deep", n), "processes outside are neither seen nor touched"}
			}
		}
	}
	return finding{name, true, "the outermost that is seen from here", "every process of the machine is seen"}
}

// perService is how many descriptors a service costs the host: its pipes, its
// handle, its log and its connection, with room.
const perService = 16

func openFiles() finding {
	const name = "open files"
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return finding{name, false, err.Error(), "the limit cannot be told"}
	}
	services := limit.Cur / perService
	return choose(name, services >= 64,
		fmt.Sprintf("at most %d", limit.Cur), fmt.Sprintf("enough for about %d services", services),
		fmt.Sprintf("at most %d", limit.Cur), fmt.Sprintf("enough for about %d services: raise it with ulimit -n, or LimitNOFILE of systemd", services))
}

func stateDirectory(dir string) finding {
	const name = "state directory"
	// The nearest that is there.
	parent := dir
	for {
		err := unix.Access(parent, unix.W_OK|unix.X_OK)
		switch {
		case err == nil:
			return finding{name, true, dir, "it can be written"}
		case errors.Is(err, unix.ENOENT) && parent != filepath.Dir(parent):
			parent = filepath.Dir(parent)
		default:
			return finding{name, false, fmt.Sprintf("%s: %v", dir, err), "the host cannot start: name another directory with --state-dir"}
		}
	}
}
