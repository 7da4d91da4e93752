package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// StreamHost is the stream of what the host itself says of a service.
const StreamHost = "host"

// maxFileBytes bounds each of a service's two files: the one that is written
// and the one before it.
const maxFileBytes int64 = 10 << 20

// Log is a service's log, open for writing. Its methods may be called
// concurrently.
type Log struct {
	path string
	max  int64 // bytes of a file

	mu     sync.Mutex
	file   *os.File
	info   fs.FileInfo // tells the file from another at the path
	size   int64
	torn   bool // the last line has no end
	closed bool
	err    error // of the last write that failed; told by Close
}

// Path is where the log of a service lies in the directory of the logs.
// service is its kind and name, as in mcp.clock.
func Path(dir, service string) string {
	return filepath.Join(dir, service+".jsonl")
}

// Open opens a log to append to it.
func Open(path string) (*Log, error) {
	l := &Log{path: path, max: maxFileBytes}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("cannot open the log: %w", err)
	}
	return l, nil
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
// next; Close returns the last error. After Close it does nothing.
func (l *Log) Append(entry Entry) {
	line, err := json.Marshal(entry)
	if err != nil {
		return // only a field of a type that JSON does not have
	}
	line = append(line, '\n')
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if err := l.write(line); err != nil {
		l.err = err
	}
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

func (l *Log) rotate() error {
	closeErr := l.closeFile()
	if err := os.Rename(l.path, previous(l.path)); err != nil {
		return err
	}
	return errors.Join(closeErr, l.open())
}

// previous is the path of the file before the one at path.
func previous(path string) string { return path + ".1" }

// Close closes the log.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return errors.Join(l.err, l.closeFile())
}

// Read calls yield with each entry of a service's log, oldest first, until it
// returns false. A line that is no entry, such as one cut by a crash, is
// skipped. A log that is not there has no entries.
func Read(path string, yield func(Entry) bool) error {
	// Both files are opened before one is read, the newer one first, so that a
	// rotation meanwhile takes nothing away.
	var files []*os.File
	defer func() {
		for _, file := range files {
			_ = file.Close()
		}
	}()
	for _, name := range []string{path, previous(path)} {
		file, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot read the log: %w", err)
		}
		files = append(files, file)
	}
	for i, file := range slices.Backward(files) {
		if i > 0 && same(file, files[0]) {
			continue
		}
		more, err := readFile(file, yield)
		if err != nil {
			return fmt.Errorf("cannot read the log: %w", err)
		}
		if !more {
			return nil
		}
	}
	return nil
}

func same(a, b *os.File) bool {
	infoA, errA := a.Stat()
	infoB, errB := b.Stat()
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

func readFile(file *os.File, yield func(Entry) bool) (more bool, err error) {
	content, err := io.ReadAll(file)
	if err != nil {
		return false, err
	}
	for line := range bytes.Lines(content) {
		if entry, ok := parseEntry(line); ok && !yield(entry) {
			return false, nil
		}
	}
	return true, nil
}

func parseEntry(line []byte) (entry Entry, ok bool) {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber() // fields stay as they were written
	if decoder.Decode(&entry) != nil {
		return Entry{}, false
	}
	_, err := decoder.Token()
	return entry, err == io.EOF && !entry.Time.IsZero()
}
