package probes

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// stat is what /proc/PID/stat says, in the kernel's words.
type stat struct {
	comm     string
	state    byte
	ppid     int
	pgid     int
	flags    uint64
	threads  int
	start    uint64 // clock ticks since boot
	envStart uint64 // bounds of the environment; both 0 in the midst of an exec,
	envEnd   uint64 // of a kernel thread or a zombie, and when withheld
}

// Flags of a task, part of what stat shows since always.
const (
	taskForkedNoExec = 0x00000040 // executed nothing since it was forked
	taskKernelThread = 0x00200000
)

func (s *stat) forked() bool { return s.flags&taskForkedNoExec != 0 }
func (s *stat) kernel() bool { return s.flags&taskKernelThread != 0 }

// dead reports that the leading thread has exited. Others may live on.
func (s *stat) dead() bool { return s.state == 'Z' || s.state == 'X' || s.state == 'x' }

// noEnviron reports that the process was executed with an empty environment.
func (s *stat) noEnviron() bool { return s.envEnd != 0 && s.envStart == s.envEnd }

// Positions of the fields, counted from the state, which follows the name.
const (
	fieldState    = 0
	fieldParent   = 1
	fieldGroup    = 2
	fieldFlags    = 6
	fieldThreads  = 17
	fieldStart    = 19
	fieldEnvStart = 47
	fieldEnvEnd   = 48
)

var errStat = errors.New("malformed stat")

// parseStat reads the line of /proc/PID/stat. The name stands in parentheses
// and may hold any byte but NUL, parentheses, spaces and newlines too; nothing
// after it holds a parenthesis.
func parseStat(line []byte) (stat, error) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return stat{}, fmt.Errorf("%w: no name", errStat)
	}
	s, err := parseStatFields(line[end+1:])
	if err == nil {
		s.comm = string(line[open+1 : end])
	}
	return s, err
}

// parseStatFields reads what follows the name.
func parseStatFields(rest []byte) (stat, error) {
	var s stat
	i := 0
	for ; i <= fieldEnvEnd; i++ {
		var field []byte
		if field, rest = cutField(rest); len(field) == 0 {
			break
		}
		var err error
		switch i {
		case fieldState:
			if len(field) != 1 {
				err = errStat
			}
			s.state = field[0]
		case fieldParent:
			s.ppid, err = strconv.Atoi(string(field))
		case fieldGroup:
			s.pgid, err = strconv.Atoi(string(field))
		case fieldFlags:
			s.flags, err = strconv.ParseUint(string(field), 10, 64)
		case fieldThreads:
			s.threads, err = strconv.Atoi(string(field))
		case fieldStart:
			s.start, err = strconv.ParseUint(string(field), 10, 64)
		case fieldEnvStart:
			s.envStart, err = strconv.ParseUint(string(field), 10, 64)
		case fieldEnvEnd:
			s.envEnd, err = strconv.ParseUint(string(field), 10, 64)
		}
		if err != nil {
			return stat{}, fmt.Errorf("%w: field %d after the name: %q", errStat, i, string(field))
		}
	}
	if i <= fieldStart {
		return stat{}, fmt.Errorf("%w: %d fields after the name", errStat, i)
	}
	return s, nil
}

// cutField returns the first field of a line, and what follows it.
func cutField(line []byte) (field, rest []byte) {
	from := 0
	for from < len(line) && (line[from] == ' ' || line[from] == '\n') {
		from++
	}
	to := from
	for to < len(line) && line[to] != ' ' && line[to] != '\n' {
		to++
	}
	return line[from:to], line[to:]
}
