package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// StreamHost is the stream of what the host itself says of a service.
const StreamHost = "host"

// Bounds of a service's log: the file that is written and the one before it.
const maxFileBytes = 10 << 20

// Log is a service's log, open for writing. Its methods may be called
// concurrently.
type Log struct {
	path string

	mu   sync.Mutex
	file *os.File
	size int64
	err  error // of the last write; told once by Close
}

// Path is where the log of a service lies in the directory of the logs.
// service is its kind and name, as in mcp.clock.
func Path(dir, service string) string {
	return filepath.Join(dir, service+".jsonl")
}

// Open opens a log to append to it.
func Open(path string) (*Log, error) {
	l := &Log{path: path}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("cannot open the log: %w", err)
	}
	return l, nil
}

func (l *Log) open() error {
	file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	l.file, l.size = file, info.Size()
	return nil
}

// Append writes an entry. A log that cannot be written (the disk is full) must
// not stop the service, so lines are lost then, and Append tries again with the
// next; Close returns the last error.
func (l *Log) Append(entry Entry) {
	line, err := json.Marshal(entry)
	if err != nil {
		return // only a field of a type that JSON does not have
	}
	line = append(line, '\n')
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.write(line); err != nil {
		l.err = err
	}
}

func (l *Log) write(line []byte) error {
	if l.file == nil {
		if err := l.open(); err != nil {
			return err
		}
	}
	if l.size > 0 && l.size+int64(len(line)) > maxFileBytes {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	n, err := l.file.Write(line)
	l.size += int64(n)
	return err
}

func (l *Log) rotate() error {
	err := l.file.Close()
	l.file = nil
	if err := os.Rename(l.path, l.path+".1"); err != nil {
		return err
	}
	return errors.Join(err, l.open())
}

// Close closes the log.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	if l.file != nil {
		err = l.file.Close()
		l.file = nil
	}
	return errors.Join(l.err, err)
}

// Read calls yield with each entry of a service's log, oldest first, until it
// returns false. A line that is no entry, such as one cut by a crash, is
// skipped. A log that is not there has no entries.
func Read(path string, yield func(Entry) bool) error {
	for _, name := range []string{path + ".1", path} {
		more, err := readFile(name, yield)
		if err != nil {
			return fmt.Errorf("cannot read the log: %w", err)
		}
		if !more {
			return nil
		}
	}
	return nil
}

func readFile(name string, yield func(Entry) bool) (more bool, err error) {
	content, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	for line := range bytes.Lines(content) {
		var entry Entry
		if json.Unmarshal(line, &entry) == nil && !yield(entry) {
			return false, nil
		}
	}
	return true, nil
}
