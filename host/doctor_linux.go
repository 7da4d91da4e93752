package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// systemFindings say what else of Linux matters to a host with that state
// directory.
func systemFindings(stateDir string) []finding {
	return []finding{
		deathSignal(),
		subreaper(),
		cgroups(),
		pidNamespace(),
		openFiles(),
		stateDirectory(stateDir),
	}
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

// cgroups looks where cgroup v2 is mounted and whether this process may make
// groups below its own.
func cgroups() finding {
	const name = "cgroup v2"
	mount, err := cgroup2Mount()
	if err != nil || mount == "" {
		return finding{name, false, "not mounted", "limits of memory, processor and processes cannot be set, and trees are ended process by process"}
	}
	own, err := ownCgroup()
	if err != nil {
		return finding{name, false, fmt.Sprintf("mounted at %s, and this process's own group is not to be found: %v", mount, err), "limits cannot be set"}
	}
	dir := filepath.Join(mount, own)
	if err := unix.Access(dir, unix.W_OK); err != nil {
		return finding{name, false, fmt.Sprintf("mounted at %s, and %s is not this user's to write", mount, dir), "limits cannot be set; with systemd, set Delegate=yes in the host's unit"}
	}
	return finding{name, true, "writable at " + dir, "trees can be ended and limited as a whole"}
}

// cgroup2Mount finds the mount point: it is not always /sys/fs/cgroup.
func cgroup2Mount() (string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer f.Close()
	scanner := bufio.NewScanner(f)
	for scanner.Scan() {
		before, after, ok := strings.Cut(scanner.Text(), " - ")
		fields := strings.Fields(before)
		if ok && len(fields) > 4 && strings.HasPrefix(after, "cgroup2 ") {
			return fields[4], nil
		}
	}
	return "", scanner.Err()
}

func ownCgroup() (string, error) {
	content, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(content)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return path, nil
		}
	}
	return "", errors.New("/proc/self/cgroup names none")
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
