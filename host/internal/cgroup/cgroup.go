// Package cgroup gives each instance a control group (cgroup v2) of its own,
// where the system lets it: a group holds every process that ever came from
// the instance, whatever it did to its environment, its session or its parent,
// so that all can be ended as one and limited as one.
//
// Groups lie directly below the host's own group, and are named
//
//	plughost.<installation>.<instance>
//
// Only groups of exactly that name, with the installation's own id, are ever
// touched, and never one that the host itself is in.
package cgroup

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// Limits are what the processes of a group may have together. A zero value is
// no limit.
type Limits struct {
	// Memory is in bytes. What exceeds it is ended by the kernel, the whole
	// group at once.
	Memory int64
	// CPUs is how many processors' time may be used, such as 0.5.
	CPUs float64
	// Processes is how many processes and threads there may be.
	Processes int
}

// IsZero reports whether nothing is limited.
func (l Limits) IsZero() bool { return l == Limits{} }

// period is the span in which the use of processors is counted, in
// microseconds: the kernel's own default.
const period = 100_000

// MinCPUs is the least share of a processor that the kernel can enforce: 1 ms
// in each period (cgroup-v2.rst, cpu.max).
const MinCPUs = 0.01

// setting is what a limit is to the kernel.
type setting struct {
	attribute  string // in the configuration
	controller string
	file       string
	value      string
	// optional says that the limit holds without it.
	optional bool
}

func (l Limits) settings() []setting {
	var list []setting
	if l.Memory > 0 {
		list = append(list,
			setting{"memory", "memory", "memory.max", strconv.FormatInt(l.Memory, 10), false},
			setting{"memory", "memory", "memory.oom.group", "1", true})
	}
	if l.CPUs > 0 {
		quota := max(int64(math.Round(l.CPUs*period)), MinCPUs*period)
		list = append(list, setting{"cpus", "cpu", "cpu.max", fmt.Sprintf("%d %d", quota, period), false})
	}
	if l.Processes > 0 {
		list = append(list, setting{"processes", "pids", "pids.max", strconv.Itoa(l.Processes), false})
	}
	return list
}

// UnavailableError says that groups, or one of their limits, are not to be had.
type UnavailableError struct {
	// What is what is missing, such as `limits.memory`, or empty for groups at
	// all.
	What string
	// Reason is why.
	Reason string
	// Remedy is what can be done, or empty.
	Remedy string
}

func (e *UnavailableError) Error() string {
	var s strings.Builder
	if e.What != "" {
		s.WriteString(e.What + ": ")
	}
	s.WriteString(e.Reason)
	if e.Remedy != "" {
		s.WriteString("; " + e.Remedy)
	}
	return s.String()
}

// Left is a group that an earlier host left, and what became of it.
type Left struct {
	// Instance is the id of the instance whose group it is.
	Instance string
	// PIDs are the processes that were ended in it.
	PIDs []int
	// Err says why it is still there.
	Err error
}

const prefix = "plughost"

func groupName(installation, instance string) string {
	return strings.Join([]string{prefix, installation, instance}, ".")
}

// parseName reads the name of a group. Whatever is not exactly one is none.
func parseName(name string) (installation, instance string, ok bool) {
	parts := strings.Split(name, ".")
	if len(parts) != 3 || parts[0] != prefix || !isID(parts[1]) || !isID(parts[2]) {
		return "", "", false
	}
	return parts[1], parts[2], true
}

func isID(text string) bool {
	id, err := uuid.Parse(text)
	return err == nil && id.String() == text && id != uuid.Nil
}
