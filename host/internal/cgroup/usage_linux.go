package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Usage says what an instance's group takes of the machine: the processors'
// time of all that was ever in it, and, where memory is counted for it, that in
// bytes, else 0. pids are the processes that are in it.
func (t *Tree) Usage(instance string) (cpu time.Duration, memory int64, pids []int, err error) {
	group := Group{dir: filepath.Join(t.base, groupName(t.installation, instance))}
	if pids, err = group.processes(); err != nil {
		return 0, 0, nil, err
	}
	stat, err := os.ReadFile(filepath.Join(group.dir, "cpu.stat"))
	if err != nil {
		return 0, 0, nil, err
	}
	for line := range strings.Lines(string(stat)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "usage_usec "); ok {
			microseconds, _ := strconv.ParseInt(text, 10, 64)
			cpu = time.Duration(microseconds) * time.Microsecond
		}
	}
	if current, err := os.ReadFile(filepath.Join(group.dir, "memory.current")); err == nil {
		memory, _ = strconv.ParseInt(strings.TrimSpace(string(current)), 10, 64)
	}
	return cpu, memory, pids, nil
}
