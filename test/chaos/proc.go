//go:build linux

package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// process is what /proc says of a process.
type process struct {
	pid, parent, group int
	state              byte // Z is a zombie
	start              uint64
	command            string
	environ            map[string]string
	twice              bool // a variable of a marker is there more than once
}

// The variables by which a host marks its children; see docs/architecture.md.
const (
	envSubprocess   = "PLUGHOST_SUBPROCESS"
	envMCP          = "PLUGHOST_MCP_SERVICE"
	envAgent        = "PLUGHOST_AGENT"
	envInstallation = "PLUGHOST_INSTALLATION"
	envInstance     = "PLUGHOST_INSTANCE"
)

func (p *process) service() string {
	if name := p.environ[envMCP]; name != "" {
		return name
	}
	return p.environ[envAgent]
}

func (p *process) instance() string { return p.environ[envInstance] }

// lives reports whether it runs or could run.
func (p *process) lives() bool { return p.state != 'Z' && p.state != 'X' }

func (p *process) String() string {
	return fmt.Sprintf("pid %d, parent %d, group %d, state %c, service %q, instance %s: %s",
		p.pid, p.parent, p.group, p.state, p.service(), p.instance(), p.command)
}

// processes are all that can be read.
func processes() []*process {
	entries, _ := os.ReadDir("/proc")
	var all []*process
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			if p := readProcess(pid); p != nil {
				all = append(all, p)
			}
		}
	}
	return all
}

// groupOf are the members of a process group, zombies too.
func groupOf(group int) []*process {
	return slices.DeleteFunc(processes(), func(p *process) bool { return p.group != group })
}

// readProcess returns nil if there is no such process.
func readProcess(pid int) *process {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	p := readStat(pid)
	if p == nil {
		return nil
	}
	command, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
	p.command = strings.TrimSpace(string(bytes.ReplaceAll(command, []byte{0}, []byte{' '})))
	p.environ = make(map[string]string)
	for entry := range strings.SplitSeq(string(readEnviron(dir)), "\x00") {
		name, value, _ := strings.Cut(entry, "=")
		if _, known := p.environ[name]; known && strings.HasPrefix(name, "PLUGHOST_") {
			p.twice = true
		}
		p.environ[name] = value
	}
	return p
}

// environSize is more than any environment of the storm has.
const environSize = 64 << 10

// readEnviron reads the environment of a process; it is empty if it can't be
// read. It takes a single read: of a process that is just being executed a
// second one would return nothing, and what the first returned would look like
// a whole environment.
func readEnviron(dir string) []byte {
	file, err := os.Open(filepath.Join(dir, "environ"))
	if err != nil {
		return nil
	}
	defer file.Close()
	environ := make([]byte, environSize)
	n, err := file.Read(environ)
	if err != nil {
		return nil
	}
	return environ[:n]
}

// readStat reads what proc_pid_stat(5) says, without command and environment.
func readStat(pid int) *process {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil
	}
	// The name is in parentheses, and may hold some.
	_, rest, ok := bytes.Cut(content[bytes.LastIndexByte(content, ')'):], []byte(" "))
	fields := strings.Fields(string(rest))
	if !ok || len(fields) < 20 {
		return nil
	}
	p := &process{pid: pid, state: fields[0][0]}
	p.parent, _ = strconv.Atoi(fields[1])
	p.group, _ = strconv.Atoi(fields[2])
	p.start, _ = strconv.ParseUint(fields[19], 10, 64)
	return p
}

// same reports whether a process still lives that was seen before.
func (p *process) same() bool {
	now := readStat(p.pid)
	return now != nil && now.start == p.start && now.lives()
}

// listeners are the inodes of the sockets that listen on each TCP port. The kernel
// gives its lists in pieces, and passes over some when others come and go: they are
// read twice.
func listeners() map[int][]string {
	const listening = "0A"
	found := make(map[int][]string)
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6", "/proc/net/tcp", "/proc/net/tcp6"} {
		content, _ := os.ReadFile(table)
		for line := range strings.Lines(string(content)) {
			fields := strings.Fields(line)
			if len(fields) < 10 || fields[3] != listening {
				continue
			}
			_, port, _ := strings.Cut(fields[1], ":")
			number, err := hex.DecodeString(port)
			if err != nil || len(number) != 2 {
				continue
			}
			n := int(number[0])<<8 | int(number[1])
			if inode := fields[9]; !slices.Contains(found[n], inode) {
				found[n] = append(found[n], inode)
			}
		}
	}
	return found
}

// holds reports whether a process has a socket open.
func holds(pid int, inode string) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, _ := os.ReadDir(dir)
	return slices.ContainsFunc(entries, func(entry os.DirEntry) bool {
		target, err := os.Readlink(filepath.Join(dir, entry.Name()))
		return err == nil && target == "socket:["+inode+"]"
	})
}

// descriptors is how many files a process has open.
func descriptors(pid int) int {
	entries, _ := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "fd"))
	return len(entries)
}
