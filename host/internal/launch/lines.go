package launch

import (
	"bytes"
)

// Stream says where a plugin wrote a line.
type Stream string

// The streams of a plugin.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// Output takes what a plugin writes, a line at a time without its end. It is
// called by several goroutines at once, must not keep line, and must not
// block for long: the plugin would.
type Output func(stream Stream, line []byte)

// maxLine is how much of a line is kept together. A longer one is handed on
// in pieces of this size, so that a plugin that never ends a line costs the
// host no more than that.
const maxLine = 64 << 10

// lineWriter cuts a stream into lines. It is for one goroutine.
type lineWriter struct {
	stream Stream
	output Output
	buffer []byte
	cut    bool // the last piece was the beginning of a line
}

func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if end := bytes.IndexByte(p, '\n'); end >= 0 && len(w.buffer)+end <= maxLine {
			w.buffer = append(w.buffer, p[:end]...)
			if len(w.buffer) > 0 || !w.cut {
				w.emit()
			}
			w.cut = false
			p = p[end+1:]
			continue
		}
		room := min(maxLine-len(w.buffer), len(p))
		w.buffer = append(w.buffer, p[:room]...)
		p = p[room:]
		if len(w.buffer) == maxLine {
			w.emit()
			w.cut = true
		}
	}
	return n, nil
}

// flush hands on a last line that was not ended.
func (w *lineWriter) flush() {
	if len(w.buffer) > 0 {
		w.emit()
	}
}

func (w *lineWriter) emit() {
	w.output(w.stream, bytes.TrimSuffix(w.buffer, []byte("\r")))
	w.buffer = w.buffer[:0]
}
