package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Bounds of a server's standard output.
const (
	// maxLine is the longest message: what a result of some dozen megabytes
	// takes.
	maxLine = 64 << 20
	// shownLine is how much of a line is shown that is no message.
	shownLine = 300
)

// lines reads lines of any length, and keeps those of maxLine at the most.
type lines struct {
	reader *bufio.Reader
	max    int
}

func newLines(r io.Reader) *lines { return &lines{bufio.NewReaderSize(r, 64<<10), maxLine} }

// next returns the next line without its end, in bytes of its own. Of one that
// is too long it returns the beginning, and a *longLineError.
func (l *lines) next() ([]byte, error) {
	var line, end []byte
	size := 0
	for {
		piece, err := l.reader.ReadSlice('\n')
		size += len(piece)
		if size <= l.max {
			line = append(line, piece...)
		} else if len(line) < shownLine {
			line = append(line, piece[:min(len(piece), shownLine)]...)
		}
		if size > l.max {
			end = append(end, piece[max(0, len(piece)-shownLine):]...)
			end = end[max(0, len(end)-shownLine):]
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && size == 0:
			return nil, err
		case size > l.max:
			return line[:shownLine], &longLineError{size, bytes.TrimRight(end, "\r\n")}
		}
		return bytes.TrimRight(line, "\r\n"), nil
	}
}

// longLineError is of a line that is no message since it is too long.
type longLineError struct {
	size int
	end  []byte // of the line
}

func (e *longLineError) Error() string {
	return fmt.Sprintf("a line of %d bytes is longer than a message may be", e.size)
}

// shown is a line as far as it is shown in a log.
func shown(line []byte) []byte {
	if len(line) <= shownLine {
		return line
	}
	return fmt.Appendf(nil, "%s... (%d bytes)", line[:shownLine], len(line))
}
