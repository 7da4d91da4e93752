//go:build !linux

package cgroup

import (
	"errors"
	"runtime"
	"time"
)

// Tree is of Linux; elsewhere there is none.
type Tree struct{}

// Group is of Linux; elsewhere there is none.
type Group struct{}

// Open says that there are no groups here.
func Open(string) (*Tree, error) {
	return nil, &UnavailableError{Reason: runtime.GOOS + " has no control groups"}
}

// Base is empty.
func (*Tree) Base() string { return "" }

// Missing is empty: there is no tree to ask.
func (*Tree) Missing(Limits) []error { return nil }

// New is not supported.
func (*Tree) New(string, Limits) (*Group, error) { return nil, errors.ErrUnsupported }

// Reclaim finds nothing.
func (*Tree) Reclaim([]string, func(string) bool) []Left { return nil }

// Find finds none.
func (*Tree) Find(string, string) *Group { return nil }

// Path is empty.
func (*Tree) Path(*Group) string { return "" }

// Usage is not supported.
func (*Tree) Usage(string) (cpu time.Duration, memory int64, pids []int, err error) {
	return 0, 0, nil, errors.ErrUnsupported
}

// Close does nothing.
func (*Tree) Close() error { return nil }

// Kill does nothing.
func (*Group) Kill() ([]int, error) { return nil, nil }

// Remove does nothing.
func (*Group) Remove() error { return nil }

// OutOfMemory is false.
func (*Group) OutOfMemory() bool { return false }
