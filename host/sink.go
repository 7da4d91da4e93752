package main

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// maxUnread is how many bytes wait for whoever reads what a host writes.
	maxUnread = 256 << 10
	// lastWords is how long a host that ends waits for them to be read.
	lastWords = time.Second
)

// sink writes to a file of which others decide when it is read: a terminal takes
// nothing after Ctrl-S, and neither does a pipe of a program that hangs. Nobody
// who writes waits for that. What does not fit is left out, and counted.
type sink struct {
	out io.Writer

	mu      sync.Mutex
	unread  []byte
	lost    int // lines since the last that did fit
	closed  bool
	news    chan struct{}
	written chan struct{} // closed when all is written after close
}

func newSink(out io.Writer) *sink {
	s := &sink{out: out, news: make(chan struct{}, 1), written: make(chan struct{})}
	go s.run()
	return s
}

// Write implements io.Writer, for whole lines.
func (s *sink) Write(lines []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unread)+len(lines) > maxUnread {
		s.lost += bytes.Count(lines, []byte("\n"))
		return len(lines), nil
	}
	s.tellLost()
	s.unread = append(s.unread, lines...)
	s.wake()
	return len(lines), nil
}

// tellLost says how much was left out.
func (s *sink) tellLost() {
	if s.lost > 0 {
		s.unread = fmt.Appendf(s.unread, "plughost: %s left out here, which nobody was there to read\n", count(s.lost, "line"))
		s.lost = 0
	}
}

func (s *sink) wake() {
	select {
	case s.news <- struct{}{}:
	default: // it has not looked since the last time
	}
}

func (s *sink) run() {
	defer close(s.written)
	for range s.news {
		s.mu.Lock()
		lines, closed := s.unread, s.closed
		s.unread = nil
		s.mu.Unlock()
		_, _ = s.out.Write(lines) // who has gone away reads nothing
		if closed {
			return
		}
	}
}

// close has the last lines be written, if somebody reads them.
func (s *sink) close() {
	s.mu.Lock()
	s.tellLost()
	s.closed = true
	s.wake()
	s.mu.Unlock()
	select {
	case <-s.written:
	case <-time.After(lastWords):
	}
}
