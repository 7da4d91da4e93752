package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"
)

// maxBatch bounds the entries that are handed over at once.
const maxBatch = 256

// Follow reads logs, and goes on as they grow. It calls yield first with what
// the query asks for, in the order of Read, and then with what is appended, as
// it comes; several entries that came together are in the order of their time.
// No entry is missed between the two, nor over a rotation.
//
// It waits for the logs themselves and not for a time. What it has not read yet
// it leaves in the files, so yield may take as long as it likes and costs
// nobody anything. If a file is gone before it was read, an entry of the stream
// StreamHost says how much of the log is missing.
//
// It ends with an error of yield or ctx, or with nil when nothing is to come
// any more: EndFollowing or Close was called on all of the logs.
func Follow(ctx context.Context, logs []*Log, query Query, yield func([]Entry) error) error {
	wake := make(chan struct{}, 1)
	var all histories
	defer func() { all.close() }()
	var followers []*follower
	for _, l := range logs {
		f, h, err := l.follow(wake)
		if err != nil {
			return err
		}
		defer f.close()
		followers = append(followers, f)
		all = append(all, h)
	}
	if err := inBatches(ctx, all, query, yield); err != nil {
		return err
	}
	all.close()
	all = nil

	for {
		var batch []Entry
		more, ended := false, true
		for _, f := range followers {
			ended = f.ended() && ended // before it reads: what came before the end is read
			entries, moreOfIt, err := f.read()
			if err != nil {
				return fmt.Errorf("cannot read the log: %w", err)
			}
			batch, more = append(batch, entries...), more || moreOfIt
		}
		if len(batch) > 0 {
			slices.SortStableFunc(batch, func(a, b Entry) int { return a.Time.Compare(b.Time) })
			if err := yield(batch); err != nil {
				return err
			}
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case more:
			continue
		case ended:
			return nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func inBatches(ctx context.Context, all histories, query Query, yield func([]Entry) error) error {
	var batch []Entry
	err := all.read(query, func(entry Entry) error {
		if batch = append(batch, entry); len(batch) < maxBatch {
			return nil
		}
		err := errors.Join(ctx.Err(), yield(batch))
		batch = nil
		return err
	})
	if err == nil && len(batch) > 0 {
		err = yield(batch)
	}
	return err
}

// EndFollowing ends each Follow once it has read what is there. The log is
// written as before.
func (l *Log) EndFollowing() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endFollowing()
}

func (l *Log) endFollowing() {
	l.unfollow = true
	for wake := range l.followers {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// follower reads the files of a log one after another.
type follower struct {
	log  *Log
	wake chan<- struct{}

	file   *os.File // nil if it was not there
	number int      // the log's number of the file
	offset int64    // of the first byte that was not handed over
	rest   []byte   // a line from there on, of which the end was not read yet
	line   int64    // how many lines of the log were read, as the log counts them; not known if negative
	whole  bool     // nothing is written to the file any more
	buffer []byte
}

// follow returns what the log has now, and who reads what comes after that.
func (l *Log) follow(wake chan<- struct{}) (*follower, *history, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current() // knows the size
	h, err := openHistory(l.path, l.maxFiles-1)
	if err != nil {
		return nil, nil, err
	}
	f := &follower{log: l, wake: wake, number: l.number, line: int64(l.counts.Lines)}
	if l.file != nil && len(h.files) > 0 && same(h.files[0].File, l.info) {
		// One of its own: the history's are closed.
		if f.file, err = os.Open(l.path); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("cannot read the log: %w", err), h.close())
		}
		f.offset = h.files[0].size
	}
	l.followers[wake]++
	return f, h, nil
}

func (f *follower) close() {
	f.log.mu.Lock()
	if f.log.followers[f.wake]--; f.log.followers[f.wake] == 0 {
		delete(f.log.followers, f.wake)
	}
	f.log.mu.Unlock()
	if f.file != nil {
		_ = f.file.Close()
	}
}

func (f *follower) ended() bool {
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	return f.log.unfollow
}

// read returns the next entries, and whether there may be more by now.
func (f *follower) read() (entries []Entry, more bool, err error) {
	if f.file == nil {
		return f.advance()
	}
	if f.buffer == nil {
		f.buffer = make([]byte, chunk)
	}
	n, err := f.file.ReadAt(f.buffer, f.offset+int64(len(f.rest)))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	if n == 0 {
		return f.advance()
	}
	f.rest = append(f.rest, f.buffer[:n]...)
	for {
		end := bytes.IndexByte(f.rest, '\n')
		if end < 0 {
			return entries, true, nil
		}
		// Nothing but an entry counts as a line: what is between is the end
		// of one that was torn.
		if entry, ok := parseEntry(f.rest[:end]); ok {
			entries = append(entries, entry)
			if f.line >= 0 {
				f.line++
			}
		}
		f.offset += int64(end) + 1
		f.rest = f.rest[end+1:]
	}
}

// advance is called at the end of a file. It goes on to the next one, if there
// is one.
func (f *follower) advance() (entries []Entry, more bool, err error) {
	l := f.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.number == l.number {
		return f.reopen()
	}
	if f.file != nil && !f.whole {
		f.whole = true // once more: it may have grown before the rotation
		return nil, true, nil
	}
	for number := max(f.number+1, l.number-l.maxFiles+1); number <= l.number; number++ {
		file, err := f.open(number)
		if err != nil {
			return nil, false, err
		}
		if file == nil {
			continue
		}
		begin := int64(-1)
		if n := l.number - number; n < len(l.begins) {
			begin = l.begins[n]
		}
		if lost := begin - f.line; number > f.number+1 && (lost > 0 || begin < 0 || f.line < 0) {
			entries = append(entries, l.missing(lost, begin >= 0 && f.line >= 0))
		}
		f.take(file, number, begin)
		return entries, true, nil
	}
	return nil, false, nil // it is just being made
}

// reopen looks whether somebody has emptied the file that is written, or put
// another into its place.
func (f *follower) reopen() (entries []Entry, more bool, err error) {
	l := f.log
	if l.file == nil {
		return nil, false, nil
	}
	if f.file != nil && same(f.file, l.info) {
		if info, err := f.file.Stat(); err == nil && info.Size() < f.offset {
			f.offset, f.rest = 0, nil
			return nil, true, nil
		}
		return nil, false, nil
	}
	file, err := f.open(l.number)
	if file == nil || err != nil {
		return nil, false, err
	}
	f.take(file, l.number, f.line)
	return nil, true, nil
}

// open opens the file of a number, or returns nil if that is gone or is the one
// that is open.
func (f *follower) open(number int) (*os.File, error) {
	file, err := os.Open(rotated(f.log.path, f.log.number-number))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if f.file != nil {
		if info, err := f.file.Stat(); err == nil && same(file, info) {
			return nil, file.Close()
		}
	}
	return file, nil
}

func (f *follower) take(file *os.File, number int, line int64) {
	if f.file != nil {
		_ = f.file.Close()
	}
	f.file, f.number, f.line = file, number, line
	f.offset, f.rest, f.whole = 0, nil, false
}

// missing is the entry in the place of those that are gone.
func (l *Log) missing(n int64, known bool) Entry {
	what := "lines"
	if known {
		what = lines(n)
	}
	return Entry{
		Time: time.Now(), Service: l.service(), Stream: StreamHost, Level: "warn",
		Message: what + " of the log are missing here: they were removed before they were read",
	}
}
