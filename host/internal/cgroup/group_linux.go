package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plughost/plughost/probes"
)

// Group is the control group of one instance.
type Group struct {
	dir  string
	file *os.File // of dir, for as long as processes may be started in it
}

// openGroup opens a group that is there.
func openGroup(dir string) (*Group, error) {
	if _, _, ok := parseName(filepath.Base(dir)); !ok {
		return nil, fmt.Errorf("%s is no instance's control group", dir)
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	g := &Group{dir: dir, file: os.NewFile(uintptr(fd), dir)}
	var stat unix.Statfs_t
	if err := unix.Fstatfs(fd, &stat); err != nil || stat.Type != unix.CGROUP2_SUPER_MAGIC {
		return nil, errors.Join(fmt.Errorf("%s is no control group", dir), err, g.file.Close())
	}
	return g, nil
}

// FD is the descriptor by which a process is started in the group
// (syscall.SysProcAttr.CgroupFD). It is valid until Remove.
func (g *Group) FD() int { return int(g.file.Fd()) }

// Kill ends every process of the group, and of groups below it, at once, and
// returns those that were there when all are gone. They have probes.Settle to
// go: what is left then is in a *probes.SurvivorsError.
func (g *Group) Kill() ([]int, error) {
	pids, err := g.processes()
	if err != nil {
		return nil, err
	}
	populated, err := g.populated()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // removed
	}
	if err != nil || !populated {
		return nil, err
	}
	p, err := find()
	if err != nil {
		return nil, err
	}
	if contains(g.dir, p.own) {
		return nil, fmt.Errorf("the host itself is in %s: nothing in it is ended", g.dir)
	}
	if err := write(filepath.Join(g.dir, killFile), "1"); err != nil {
		return nil, fmt.Errorf("cannot end the control group: %w", err)
	}
	if err := g.waitUntilEmpty(time.Now().Add(probes.Settle)); err != nil {
		left, _ := g.processes()
		return pids, &probes.SurvivorsError{PIDs: left, Err: err}
	}
	return pids, nil
}

// waitUntilEmpty waits for the kernel to tell that no process is left; a
// zombie is none.
func (g *Group) waitUntilEmpty(deadline time.Time) error {
	events, err := os.Open(filepath.Join(g.dir, eventsFile))
	if err != nil {
		return err
	}
	defer events.Close()
	for {
		// Reading takes note of the state; the poll tells of the next change.
		content := make([]byte, 256)
		n, err := events.ReadAt(content, 0)
		if n == 0 {
			return err
		}
		if !isPopulated(string(content[:n])) {
			return nil
		}
		rest := time.Until(deadline)
		if rest <= 0 {
			return errors.New("the control group did not become empty")
		}
		polled := []unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}}
		if _, err := unix.Poll(polled, int(rest.Milliseconds())+1); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (g *Group) populated() (bool, error) {
	content, err := os.ReadFile(filepath.Join(g.dir, eventsFile))
	return isPopulated(string(content)), err
}

func isPopulated(events string) bool {
	for line := range strings.Lines(events) {
		if strings.TrimSpace(line) == "populated 0" {
			return false
		}
	}
	return true
}

// processes are those of the group and of all groups below it.
func (g *Group) processes() ([]int, error) {
	var all []int
	err := filepath.WalkDir(g.dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			var pids []int
			pids, err = readPIDs(path)
			all = append(all, pids...)
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			return nil // removed meanwhile
		}
		if errors.Is(err, unix.EOPNOTSUPP) {
			return nil // a group of threads, whose processes another one lists
		}
		return err
	})
	return all, err
}

// OutOfMemory reports whether the kernel ever ended a process of the group for
// its memory limit.
func (g *Group) OutOfMemory() bool {
	content, err := os.ReadFile(filepath.Join(g.dir, "memory.events"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(content)) {
		if count, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return strings.TrimSpace(count) != "0"
		}
	}
	return false
}

// Remove removes the group, which must be empty, with the groups below it. The
// group cannot be used any more, unless there is an error.
func (g *Group) Remove() error {
	var dirs []string
	err := filepath.WalkDir(g.dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	for i := len(dirs) - 1; i >= 0; i-- {
		if rmErr := unix.Rmdir(dirs[i]); rmErr != nil && !errors.Is(rmErr, unix.ENOENT) {
			err = errors.Join(err, fmt.Errorf("cannot remove the control group %s: %w", dirs[i], rmErr))
		}
	}
	if err != nil {
		return err
	}
	_ = g.file.Close()
	return nil
}
