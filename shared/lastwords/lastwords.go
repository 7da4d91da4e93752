// Package lastwords reads the pipes of processes that end: what they wrote before
// is not lost when whoever reads comes late, and what they left behind may hold
// the pipes for ever.
package lastwords

import (
	"errors"
	"io"
	"os"
)

// reader reads a process's pipe, and when the time for that is over what is in it
// by then: whoever reads may have been held up for longer than the time took.
type reader struct {
	pipe *os.File
	// left is how much is still read then. Others may write on and on.
	left int
}

// pipeBytes is more than pipes hold.
const pipeBytes = 1 << 20

// Reader reads a pipe until its end or, from its read deadline on, as long as there
// is something in it, within bounds.
func Reader(pipe *os.File) io.Reader { return &reader{pipe, pipeBytes} }

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	n, err := r.pipe.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) && r.left > 0 {
		n, err = readNow(r.pipe, p[:min(len(p), r.left)])
		r.left -= n
	}
	return n, err
}
