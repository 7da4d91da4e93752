package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// hostLeaf is the group into which the host moves itself when its own must be
// empty of processes. A service manager may start it there at once
// (DelegateSubgroup=plughost-host of systemd).
const hostLeaf = "plughost-host"

// place is where this process is in the hierarchy of groups.
type place struct {
	mount string // where the hierarchy is mounted
	root  string // the path in the hierarchy that is mounted there
	own   string // directory of this process's own group
	base  string // directory below which instances get their groups
	// version1 are the controllers that cgroup v1 has, which are not v2's then.
	version1 []string
}

// find finds the place of this process. The hierarchy is not always mounted at
// /sys/fs/cgroup: where v1 and v2 are used side by side it is below that.
func find() (place, error) {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return place{}, &UnavailableError{Reason: fmt.Sprintf("the mounts cannot be read: %v", err)}
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return place{}, &UnavailableError{Reason: fmt.Sprintf("this process's group cannot be read: %v", err)}
	}
	return locate(string(info), string(groups))
}

// locate is find on the contents of /proc/self/mountinfo (proc(5)) and
// /proc/self/cgroup (cgroups(7)).
func locate(mountinfo, groups string) (place, error) {
	var p place
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(strings.TrimSpace(line), " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(kind) < 3 {
			continue
		}
		switch {
		case kind[0] == "cgroup":
			p.version1 = append(p.version1, strings.Split(kind[2], ",")...)
		case kind[0] == "cgroup2" && p.mount == "":
			p.root, p.mount = unescape(fields[3]), unescape(fields[4])
		}
	}
	if p.mount == "" {
		return p, &UnavailableError{Reason: "cgroup v2 is not mounted"}
	}
	for line := range strings.Lines(groups) {
		path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::")
		if !ok {
			continue
		}
		below, err := filepath.Rel(p.root, path)
		// What is outside of the namespace begins with /.. (cgroup_namespaces(7)).
		if err != nil || !filepath.IsLocal(below) || strings.HasPrefix(p.root, "/..") || strings.HasPrefix(path, "/..") {
			return p, &UnavailableError{Reason: fmt.Sprintf("this process's group %s is not below what is mounted at %s, which is %s", path, p.mount, p.root)}
		}
		p.own = filepath.Join(p.mount, below)
		p.base = p.own
		if filepath.Base(p.own) == hostLeaf {
			p.base = filepath.Dir(p.own)
		}
		return p, nil
	}
	return p, &UnavailableError{Reason: "this process is in no group of cgroup v2"}
}

// unescape undoes what mountinfo does to blanks and backslashes.
func unescape(field string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(field)
}

// usable says why no groups can be made at the place, or nothing.
func (p place) usable() error {
	pids, err := readPIDs(p.own)
	if err != nil || !slices.Contains(pids, os.Getpid()) {
		return &UnavailableError{Reason: fmt.Sprintf("this process is not seen in its own group %s (%v)", p.own, err)}
	}
	for _, path := range []string{p.base, filepath.Join(p.base, procsFile)} {
		err := unix.Access(path, unix.W_OK)
		switch {
		case errors.Is(err, unix.EROFS):
			return &UnavailableError{Reason: p.mount + " is mounted read-only", Remedy: "a container needs a group namespace of its own, mounted writable"}
		case err != nil:
			return &UnavailableError{Reason: fmt.Sprintf("%s is not this user's to write", path), Remedy: delegate}
		}
	}
	if !p.canKill() {
		return &UnavailableError{Reason: "the kernel is older than Linux 5.14, which can end a group"}
	}
	// Its argument is refused, unless all of the call is: by an old filter of
	// system calls.
	if _, _, errno := unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0); errno == unix.ENOSYS || errno == unix.EPERM {
		return &UnavailableError{Reason: "a filter of system calls forbids clone3(2), by which a process is started in a group"}
	}
	return nil
}

const delegate = "with systemd, set Delegate=yes in the host's unit"

// canKill looks for cgroup.kill, which the topmost group of all has not.
func (p place) canKill() bool {
	if exists(filepath.Join(p.base, killFile)) {
		return true
	}
	return p.isTop() && kernelAtLeast(5, 14)
}

// isTop reports whether the base is the topmost group of the system. It alone
// may have processes beside groups with limits.
func (p place) isTop() bool { return !exists(filepath.Join(p.base, "cgroup.type")) }

func kernelAtLeast(major, minor int) bool {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return false
	}
	var a, b int
	if n, _ := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &a, &b); n != 2 {
		return false
	}
	return a > major || a == major && b >= minor
}

// why says what keeps a controller from limiting groups below the base, or
// nothing. move reports that this process must leave the base first.
func (p place) why(controller string) (move bool, err error) {
	if on, err := p.has("cgroup.subtree_control", controller); err != nil || on {
		return false, err
	}
	offered, err := p.has("cgroup.controllers", controller)
	switch {
	case err != nil:
		return false, err
	case !offered && slices.Contains(p.version1, controller):
		return false, &UnavailableError{
			Reason: fmt.Sprintf("cgroup v1 has the controller %q on this system", controller),
			Remedy: "boot with systemd.unified_cgroup_hierarchy=1, or without v1",
		}
	case !offered:
		return false, &UnavailableError{Reason: fmt.Sprintf("%s is given no controller %q", p.base, controller), Remedy: delegate}
	case p.systemds() && !p.delegated():
		return false, &UnavailableError{Reason: fmt.Sprintf("%s is systemd's own", p.base), Remedy: delegate}
	case p.isTop():
		return false, nil
	}
	pids, err := readPIDs(p.base)
	if err != nil {
		return false, err
	}
	others := slices.DeleteFunc(slices.Clone(pids), func(pid int) bool { return pid == os.Getpid() })
	if len(others) > 0 {
		return false, &UnavailableError{
			Reason: fmt.Sprintf("there are other processes in %s (pid %s), and a group with limits below it must have none beside it", p.base, few(others)),
			Remedy: "give the host a group of its own: " + delegate,
		}
	}
	return len(pids) > 0, nil
}

func few(pids []int) string {
	const most = 5
	var words []string
	for _, pid := range pids[:min(most, len(pids))] {
		words = append(words, strconv.Itoa(pid))
	}
	if len(pids) > most {
		words = append(words, "...")
	}
	return strings.Join(words, ", ")
}

// systemds reports whether the base is a unit of systemd.
func (p place) systemds() bool {
	switch filepath.Ext(p.base) {
	case ".service", ".scope", ".slice":
		return exists("/run/systemd/system")
	}
	return false
}

// delegated reports whether systemd has handed the base over, and will not
// change it behind the host's back. It says so by an extended attribute, which
// only root sees under its older name.
func (p place) delegated() bool {
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		value := make([]byte, 8)
		if n, err := unix.Getxattr(p.base, name, value); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	return false
}

// has reports whether a file of the base lists a word.
func (p place) has(file, word string) (bool, error) {
	content, err := os.ReadFile(filepath.Join(p.base, file))
	if err != nil {
		return false, &UnavailableError{Reason: err.Error()}
	}
	return slices.Contains(strings.Fields(string(content)), word), nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil || !errors.Is(err, fs.ErrNotExist)
}

// Of each group's directory.
const (
	procsFile  = "cgroup.procs"
	killFile   = "cgroup.kill"
	eventsFile = "cgroup.events"
)

// readPIDs reads the processes of one group, without those of groups below. A
// process of an outer pid namespace is 0.
func readPIDs(dir string) ([]int, error) {
	content, err := os.ReadFile(filepath.Join(dir, procsFile))
	if err != nil {
		return nil, err
	}
	var pids []int
	for field := range strings.FieldsSeq(string(content)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, procsFile), err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}
