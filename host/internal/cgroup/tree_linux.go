package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Tree makes the groups of one installation's instances. Its methods may be
// called concurrently.
type Tree struct {
	place
	installation string

	mu      sync.Mutex
	enabled []string // controllers that this tree switched on
	moved   bool     // the host has moved into its leaf
}

// Open finds where this process may make groups for the instances of an
// installation, given by its id. It changes nothing. The error is an
// *UnavailableError where there can be none.
func Open(installation string) (*Tree, error) {
	if !isID(installation) {
		return nil, fmt.Errorf("%q is no installation's id", installation)
	}
	p, err := find()
	if err != nil {
		return nil, err
	}
	if err := p.usable(); err != nil {
		return nil, err
	}
	return &Tree{place: p, installation: installation}, nil
}

// Base is the directory below which the groups are made.
func (t *Tree) Base() string { return t.base }

// Missing says which of the limits cannot be set here, and why: an
// *UnavailableError for each. It changes nothing.
func (t *Tree) Missing(limits Limits) []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var missing []error
	for _, s := range limits.settings() {
		if s.optional {
			continue
		}
		if _, err := t.why(s.controller); err != nil {
			missing = append(missing, named("limits."+s.attribute, err))
		}
	}
	return missing
}

func named(what string, err error) error {
	var unavailable *UnavailableError
	if errors.As(err, &unavailable) {
		return &UnavailableError{What: what, Reason: unavailable.Reason, Remedy: unavailable.Remedy}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// New makes the group of an instance and sets its limits, except for those that
// Missing names. To that end it may switch controllers on, and move this
// process into a group of its own beside the instances', since a group with
// limits can have no processes beside it.
func (t *Tree) New(instance string, limits Limits) (*Group, error) {
	if !isID(instance) {
		return nil, fmt.Errorf("%q is no instance's id", instance)
	}
	settings := t.possible(limits.settings())
	dir := filepath.Join(t.base, groupName(t.installation, instance))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("cannot make a control group: %w", err)
	}
	g, err := openGroup(dir)
	if err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	for _, s := range settings {
		err := write(filepath.Join(dir, s.file), s.value)
		if err != nil && !s.optional {
			return nil, errors.Join(fmt.Errorf("cannot set limits.%s: %w", s.attribute, err), g.Remove())
		}
	}
	return g, nil
}

// possible switches on what the settings need, and returns those that can be.
func (t *Tree) possible(settings []setting) []setting {
	t.mu.Lock()
	defer t.mu.Unlock()
	var can []setting
	for _, s := range settings {
		if t.enable(s.controller) == nil {
			can = append(can, s)
		}
	}
	return can
}

// enable lets groups below the base be limited by a controller.
func (t *Tree) enable(controller string) error {
	if on, err := t.has("cgroup.subtree_control", controller); err != nil || on {
		return err
	}
	move, err := t.why(controller)
	if err != nil {
		return err
	}
	if move {
		if err := t.moveToLeaf(); err != nil {
			return err
		}
	}
	if err := write(filepath.Join(t.base, "cgroup.subtree_control"), "+"+controller); err != nil {
		return fmt.Errorf("cannot switch on the controller %q: %w", controller, err)
	}
	t.enabled = append(t.enabled, controller)
	return nil
}

func (t *Tree) moveToLeaf() error {
	leaf := filepath.Join(t.base, hostLeaf)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot make a control group for the host: %w", err)
	}
	if err := write(filepath.Join(leaf, procsFile), strconv.Itoa(os.Getpid())); err != nil {
		return fmt.Errorf("cannot move the host into %s: %w", leaf, err)
	}
	t.own, t.moved = leaf, true
	return nil
}

// Close undoes what the tree did to the host's own group, so that another
// process can be started in it, unless there still are groups of instances.
func (t *Tree) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.groups()) > 0 {
		return nil
	}
	var errs []error
	for _, controller := range t.enabled {
		errs = append(errs, write(filepath.Join(t.base, "cgroup.subtree_control"), "-"+controller))
	}
	t.enabled = nil
	if t.moved {
		errs = append(errs, write(filepath.Join(t.base, procsFile), strconv.Itoa(os.Getpid())))
		// Another host may have moved there, too.
		if err := os.Remove(filepath.Join(t.base, hostLeaf)); !errors.Is(err, unix.EBUSY) {
			errs = append(errs, err)
		}
		t.own, t.moved = t.base, false
	}
	return errors.Join(errs...)
}

// groups are the installation's groups below the base, by instance.
func (t *Tree) groups() map[string]string {
	entries, _ := os.ReadDir(t.base)
	found := make(map[string]string)
	for _, entry := range entries {
		if installation, instance, ok := parseName(entry.Name()); ok && installation == t.installation && entry.IsDir() {
			found[instance] = filepath.Join(t.base, entry.Name())
		}
	}
	return found
}

// Reclaim ends and removes the groups of the installation's instances that an
// earlier host left, except for those that keep says are still needed. paths
// are where groups were recorded, as Group.Path gave them: the earlier host may
// have run in another group. One that is not exactly an instance's of this
// installation is passed over.
func (t *Tree) Reclaim(paths []string, keep func(instance string) bool) []Left {
	dirs := t.groups()
	for _, path := range paths {
		dir, ok := t.directory(path)
		if !ok {
			continue
		}
		if installation, instance, ok := parseName(filepath.Base(dir)); ok && installation == t.installation {
			dirs[instance] = dir
		}
	}
	var all []Left
	for instance, dir := range dirs {
		if keep(instance) {
			continue
		}
		left := Left{Instance: instance}
		g, err := openGroup(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			left.PIDs, err = g.Kill()
			err = errors.Join(err, g.Remove())
		}
		left.Err = err
		all = append(all, left)
	}
	return all
}

// Find opens the group that an earlier host made for an instance and recorded
// at path, or returns nil if there is none any more. It keeps its limits.
func (t *Tree) Find(instance, path string) *Group {
	dir, ok := t.directory(path)
	if !ok || filepath.Base(dir) != groupName(t.installation, instance) {
		return nil
	}
	g, err := openGroup(dir)
	if err != nil {
		return nil
	}
	return g
}

// directory is where a path of the hierarchy is found, if it can be seen here.
func (t *Tree) directory(path string) (string, bool) {
	below, err := filepath.Rel(t.root, path)
	if err != nil || !filepath.IsLocal(below) || path != filepath.Clean(path) {
		return "", false
	}
	return filepath.Join(t.mount, below), true
}

// Path is the group's in the hierarchy, as /proc/PID/cgroup has it, for Reclaim.
func (t *Tree) Path(g *Group) string {
	below, err := filepath.Rel(t.mount, g.dir)
	if err != nil {
		return ""
	}
	return filepath.Join(t.root, below)
}

// write writes to a file that is there.
func write(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// contains reports whether a path of the hierarchy is dir's or below it.
func contains(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}
