package logs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// StreamHost is the stream of what the host itself says of a service.
const StreamHost = "host"

// Bounds of a log for which nothing else is said.
const (
	DefaultMaxSize  int64 = 10 << 20
	DefaultMaxFiles       = 5
)

// Options bound what a log takes of the disk.
type Options struct {
	// MaxSize is how many bytes a file may have before the next one is begun.
	// An entry that is longer than that has a file of its own. 0 means
	// DefaultMaxSize.
	MaxSize int64
	// MaxFiles is how many files are kept, with the one that is written. Those
	// before it have the same path with .1, .2 and so on behind it, the last
	// one being the oldest. 0 means DefaultMaxFiles.
	MaxFiles int
}

// Log is a service's log, open for writing. Its methods may be called
// concurrently.
type Log struct {
	path     string
	max      int64 // bytes of a file
	maxFiles int

	mu     sync.Mutex
	file   *os.File
	info   fs.FileInfo // tells the file from another at the path
	size   int64
	torn   bool // the last line has no end
	closed bool
	err    error // of the last write that failed; told by Close
	counts Counts
	unsaid uint64 // lost entries of which the log does not tell yet

	number    int     // of the file at path: how many were begun before it
	begins    []int64 // counts.Lines at the beginning of each file, the newest first; those of before Open are not known
	unfollow  bool
	followers map[chan<- struct{}]int
}

// Counts say what was written since the log was opened.
type Counts struct {
	// Lines and Bytes are those of the entries in the log's files.
	Lines, Bytes uint64
	// Lost is how many entries could not be written.
	Lost uint64
}

// Path is where the log of a service lies in the directory of the logs.
// service is its kind and name, as in mcp.clock.
func Path(dir, service string) string {
	return filepath.Join(dir, service+".jsonl")
}

// rotated is the path of the n-th file before the one at path.
func rotated(path string, n int) string {
	if n == 0 {
		return path
	}
	return path + "." + strconv.Itoa(n)
}

// oldest is the highest n of which there is a rotated(path, n).
func oldest(path string) (int, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return 0, err
	}
	last := 0
	for _, entry := range entries {
		suffix, ok := strings.CutPrefix(entry.Name(), filepath.Base(path)+".")
		if n, err := strconv.Atoi(suffix); ok && err == nil && rotated(path, n) == path+"."+suffix {
			last = max(last, n)
		}
	}
	return last, nil
}

// Open opens a log to append to it. Files beyond those that the options allow
// are removed.
func Open(path string, opts Options) (*Log, error) {
	l := &Log{path: path, max: opts.MaxSize, maxFiles: opts.MaxFiles, followers: make(map[chan<- struct{}]int)}
	if l.max == 0 {
		l.max = DefaultMaxSize
	}
	if l.maxFiles == 0 {
		l.maxFiles = DefaultMaxFiles
	}
	if err := errors.Join(l.removeSurplus(), l.open()); err != nil {
		return nil, fmt.Errorf("cannot open the log: %w", errors.Join(err, l.closeFile()))
	}
	return l, nil
}

func (l *Log) removeSurplus() error {
	last, err := oldest(l.path)
	if err != nil {
		return err
	}
	for n := l.maxFiles; n <= last; n++ {
		if err := os.Remove(rotated(l.path, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// service is the service whose log it is.
func (l *Log) service() string { return strings.TrimSuffix(filepath.Base(l.path), ".jsonl") }

// Counts returns what was written since the log was opened.
func (l *Log) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}

func (l *Log) open() error {
	file, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	l.file, l.info, l.size, l.torn = file, info, info.Size(), false
	if l.size > 0 {
		last := make([]byte, 1)
		if _, err := file.ReadAt(last, l.size-1); err != nil {
			return errors.Join(err, l.closeFile())
		}
		l.torn = last[0] != '\n'
	}
	return nil
}

func (l *Log) closeFile() error {
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// current reports whether the open file is still the one at the path, which
// somebody may have moved or removed.
func (l *Log) current() bool {
	if l.file == nil {
		return false
	}
	info, err := os.Stat(l.path)
	if err != nil || !os.SameFile(info, l.info) {
		return false
	}
	l.size = info.Size() // somebody may have emptied it
	return true
}

// Append writes an entry. A log that cannot be written (the disk is full) must
// not stop the service, so lines are lost then, and Append tries again with the
// next; the log says how many were lost as soon as it can, and Close returns
// the last error. After Close it does nothing.
func (l *Log) Append(entry Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if l.unsaid > 0 {
		note := Entry{
			Time: entry.Time, Service: entry.Service, Stream: StreamHost, Level: "warn",
			Message: fmt.Sprintf("%s before this one could not be logged: %v", lines(l.unsaid), l.err),
		}
		if l.append(note) == nil {
			l.unsaid = 0
		}
	}
	if err := l.append(entry); err != nil {
		l.err = err
		l.counts.Lost++
		l.unsaid++
	}
	for wake := range l.followers {
		select {
		case wake <- struct{}{}:
		default: // it has not looked since the last time
		}
	}
}

func (l *Log) append(entry Entry) error {
	line, err := json.Marshal(entry)
	if err != nil {
		return err // only for a field of a type that JSON does not have
	}
	line = append(line, '\n')
	if err := l.write(line); err != nil {
		return err
	}
	l.counts.Lines++
	l.counts.Bytes += uint64(len(line))
	return nil
}

func lines[T uint64 | int64](n T) string {
	if n == 1 {
		return "1 line"
	}
	return fmt.Sprintf("%d lines", n)
}

func (l *Log) write(line []byte) error {
	if !l.current() {
		if err := errors.Join(l.closeFile(), l.open()); err != nil {
			return err
		}
	}
	if l.size > 0 && l.size+int64(len(line)) > l.max {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	if l.torn {
		line = append([]byte{'\n'}, line...) // or both lines would be lost
	}
	n, err := l.file.Write(line)
	l.size += int64(n)
	if n > 0 {
		l.torn = n < len(line)
	}
	return err
}

// rotate begins the next file.
func (l *Log) rotate() error {
	closeErr := l.closeFile()
	if err := l.shift(); err != nil {
		return err
	}
	l.number++
	l.begins = append([]int64{int64(l.counts.Lines)}, l.begins...)
	l.begins = l.begins[:min(len(l.begins), l.maxFiles)]
	return errors.Join(closeErr, l.open())
}

// shift moves every file one on, the oldest first, so that none takes the
// place of another, save that of the oldest. Should it end half way, the next
// shift goes on where there is room.
func (l *Log) shift() error {
	if l.maxFiles == 1 {
		return os.Remove(l.path)
	}
	room := 1
	for room < l.maxFiles-1 {
		if _, err := os.Lstat(rotated(l.path, room)); errors.Is(err, fs.ErrNotExist) {
			break
		}
		room++
	}
	for n := room; n > 0; n-- {
		if err := os.Rename(rotated(l.path, n-1), rotated(l.path, n)); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the log.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.endFollowing()
	return errors.Join(l.err, l.closeFile())
}
