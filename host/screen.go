package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"
)

// screen shows a text on a terminal in the place of the one before, and lets
// other lines be written above it. Its methods may be called concurrently.
type screen struct {
	out      io.Writer
	terminal *os.File // behind out

	mu    sync.Mutex
	text  string
	lines int // of the text as it is shown
}

// show replaces the text. Each of its lines ends in a newline.
func (s *screen) show(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = text
	s.draw("")
}

// leave has the text stay where it is: what is shown next comes below it.
func (s *screen) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text, s.lines = "", 0
}

// Write implements io.Writer, for whole lines.
func (s *screen) Write(lines []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draw(string(lines))
	return len(lines), nil
}

// draw writes lines over the text that is shown, and the text anew below. What
// was there is overwritten line by line: a terminal that is cleared may keep all
// of it in its history.
func (s *screen) draw(above string) {
	var b strings.Builder
	if s.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.lines)
	}
	b.WriteByte('\r')
	for line := range strings.Lines(above) {
		b.WriteString(strings.TrimSuffix(line, "\n") + toLineEnd + "\n")
	}
	width, height, err := term.GetSize(int(s.terminal.Fd()))
	if err != nil {
		width, height = 80, 24
	}
	s.lines = 0
	for line := range strings.Lines(s.text) {
		// What has left the screen at its top cannot be drawn over.
		if s.lines == height-1 {
			break
		}
		b.WriteString(cut(strings.TrimSuffix(line, "\n"), width) + toLineEnd + "\n")
		s.lines++
	}
	b.WriteString(toScreenEnd)
	_, _ = io.WriteString(s.out, b.String())
}

// Sequences that erase from the cursor on.
const (
	toLineEnd   = "\x1b[K"
	toScreenEnd = "\x1b[J"
)

// fit cuts the lines of a text to the width of w, if that is a terminal.
func fit(w io.Writer, text string) string {
	width := terminalOf(w).Width
	if width == 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(cut(strings.TrimSuffix(line, "\n"), width) + "\n")
	}
	return b.String()
}

// cut shortens a line to a number of columns. Sequences that choose colours take
// none; every other character is taken for one.
func cut(line string, width int) string {
	var b strings.Builder
	for column := 0; line != ""; {
		if end := strings.IndexByte(line, 'm'); strings.HasPrefix(line, "\x1b[") && end > 0 {
			b.WriteString(line[:end+1])
			line = line[end+1:]
			continue
		}
		_, size := utf8.DecodeRuneInString(line)
		if column++; column <= width {
			b.WriteString(line[:size])
		}
		line = line[size:]
	}
	return b.String()
}
