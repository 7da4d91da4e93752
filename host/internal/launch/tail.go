package launch

import (
	"strings"
	"sync"
)

// Bounds of what a tail keeps.
const (
	tailLines     = 5
	tailLineBytes = 400
)

// tail keeps the last lines of a plugin's output.
type tail struct {
	mu    sync.Mutex
	lines []string
}

func (t *tail) add(line []byte) {
	text := string(line[:min(len(line), tailLineBytes)])
	if strings.TrimSpace(text) == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == tailLines {
		t.lines = append(t.lines[:0], t.lines[1:]...)
	}
	t.lines = append(t.lines, text)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}
