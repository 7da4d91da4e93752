package logs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"time"
)

// Query says which entries of a log are wanted.
type Query struct {
	// Since leaves out what was logged before, unless it is zero.
	Since time.Time
	// Tail leaves out all but so many, the last ones, unless it is negative.
	Tail int
}

// Everything is the query that leaves out nothing.
func Everything() Query { return Query{Tail: -1} }

// disorder is by how much an entry may be older than the one before it: both
// got their time by different goroutines before they were written.
const disorder = time.Second

// Read calls yield with the entries of the logs at the paths: those of each in
// the order of their writing, and those of several merged by their time. A line
// that is no entry, such as one cut by a crash, is skipped. A log that is not
// there has no entries. An error of yield ends it and is returned.
func Read(paths []string, query Query, yield func(Entry) error) error {
	var all histories
	defer all.close()
	for _, path := range paths {
		last, err := oldest(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot read the log: %w", err)
		}
		// One more, for a rotation meanwhile.
		h, err := openHistory(path, last+1)
		if err != nil {
			return err
		}
		all = append(all, h)
	}
	return all.read(query, yield)
}

// history is what a log had at one time.
type history struct {
	files []historyFile // the newest first
}

type historyFile struct {
	*os.File
	size int64 // at that time
}

// openHistory opens all files of a log, up to the one with the number last. It
// opens the newer ones first, since a rotation meanwhile makes them older: then
// one is met twice, and none is missed.
func openHistory(path string, last int) (*history, error) {
	h := &history{}
	for n := range last + 1 {
		file, err := os.Open(rotated(path, n))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var info fs.FileInfo
		if err == nil {
			info, err = file.Stat()
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("cannot read the log: %w", err), file.Close(), h.close())
		}
		if slices.ContainsFunc(h.files, func(other historyFile) bool { return same(other.File, info) }) {
			_ = file.Close()
			continue
		}
		h.files = append(h.files, historyFile{file, info.Size()})
	}
	return h, nil
}

func same(file *os.File, info fs.FileInfo) bool {
	other, err := file.Stat()
	return err == nil && os.SameFile(other, info)
}

func (h *history) close() error {
	var errs []error
	for _, file := range h.files {
		errs = append(errs, file.Close())
	}
	h.files = nil
	return errors.Join(errs...)
}

// histories are those of several logs.
type histories []*history

func (all histories) close() {
	for _, h := range all {
		_ = h.close()
	}
}

func (all histories) read(query Query, yield func(Entry) error) error {
	var readErr error
	sequences := make([]iter.Seq[Entry], len(all))
	for i, h := range all {
		sequences[i] = h.entries(query, &readErr)
	}
	var last []Entry // for a tail
	for entry := range merge(sequences) {
		if query.Tail >= 0 {
			last = append(last, entry)
		} else if err := yield(entry); err != nil {
			return err
		}
	}
	if readErr != nil {
		return fmt.Errorf("cannot read the log: %w", readErr)
	}
	if query.Tail >= 0 && len(last) > query.Tail {
		last = last[len(last)-query.Tail:]
	}
	for _, entry := range last {
		if err := yield(entry); err != nil {
			return err
		}
	}
	return nil
}

// merge gives the entries of several sequences, always the earliest of those
// that come next.
func merge(sequences []iter.Seq[Entry]) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		type source struct {
			next  func() (Entry, bool)
			entry Entry
		}
		var sources []*source
		for _, sequence := range sequences {
			next, stop := iter.Pull(sequence)
			defer stop()
			if entry, ok := next(); ok {
				sources = append(sources, &source{next, entry})
			}
		}
		for len(sources) > 0 {
			first := slices.MinFunc(sources, func(a, b *source) int { return a.entry.Time.Compare(b.entry.Time) })
			if !yield(first.entry) {
				return
			}
			var ok bool
			if first.entry, ok = first.next(); !ok {
				sources = slices.DeleteFunc(sources, func(s *source) bool { return s == first })
			}
		}
	}
}

// entries are those that a query asks for. The last error is left in readErr.
func (h *history) entries(query Query, readErr *error) iter.Seq[Entry] {
	if query.Tail >= 0 {
		return h.tail(query, readErr)
	}
	return func(yield func(Entry) bool) {
		for _, file := range slices.Backward(h.files[:h.filesSince(query.Since)]) {
			more, err := file.forward(func(entry Entry) bool {
				return entry.Time.Before(query.Since) || yield(entry)
			})
			if err != nil {
				*readErr = err
			}
			if !more {
				return
			}
		}
	}
}

// filesSince is how many of the files, from the newest on, may hold what was
// logged since then.
func (h *history) filesSince(since time.Time) int {
	if since.IsZero() {
		return len(h.files)
	}
	for i, file := range h.files {
		var first Entry
		_, _ = file.forward(func(entry Entry) bool {
			first = entry
			return false
		})
		if !first.Time.IsZero() && first.Time.Before(since.Add(-disorder)) {
			return i + 1
		}
	}
	return len(h.files)
}

// forward calls yield with each entry of a file, until it returns false.
func (f historyFile) forward(yield func(Entry) bool) (more bool, err error) {
	reader := bufio.NewReaderSize(io.NewSectionReader(f, 0, f.size), chunk)
	for {
		line, err := reader.ReadBytes('\n')
		if entry, ok := parseEntry(line); ok && !yield(entry) {
			return false, nil
		}
		if err == io.EOF {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// tail reads from the end, no more than it must.
func (h *history) tail(query Query, readErr *error) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		var last []Entry // the last first
		for _, file := range h.files {
			if len(last) >= query.Tail {
				break
			}
			more, err := file.backward(func(entry Entry) bool {
				if entry.Time.Before(query.Since) {
					return !entry.Time.Before(query.Since.Add(-disorder))
				}
				last = append(last, entry)
				return len(last) < query.Tail
			})
			if err != nil {
				*readErr = err
			}
			if !more {
				break
			}
		}
		for _, entry := range slices.Backward(last) {
			if !yield(entry) {
				return
			}
		}
	}
}

// chunk is how many bytes of a file are read at a time.
const chunk = 64 << 10

// backward calls yield with each entry of a file, the last one first, until it
// returns false.
func (f historyFile) backward(yield func(Entry) bool) (more bool, err error) {
	var rest []byte // the line of which the beginning was not read yet
	for at := f.size; at > 0; {
		n := min(chunk, at)
		at -= n
		content := make([]byte, n, int(n)+len(rest))
		if _, err := f.ReadAt(content, at); err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		content = append(content, rest...)
		for {
			end := bytes.LastIndexByte(content, '\n')
			if end < 0 {
				break
			}
			if entry, ok := parseEntry(content[end+1:]); ok && !yield(entry) {
				return false, nil
			}
			content = content[:end]
		}
		rest = content
	}
	if entry, ok := parseEntry(rest); ok && !yield(entry) {
		return false, nil
	}
	return true, nil
}
