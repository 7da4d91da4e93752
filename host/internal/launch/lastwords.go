package launch

import (
	"errors"
	"os"
)

// lastWords reads a plugin's pipe, and when the time for that is over what is in it
// by then: whoever reads may have been held up for longer than the time took.
type lastWords struct {
	pipe *os.File
	// left is how much is still read then. Others may write on and on.
	left int
}

// pipeBytes is more than pipes hold.
const pipeBytes = 1 << 20

func readLastWords(pipe *os.File) *lastWords { return &lastWords{pipe, pipeBytes} }

// Read implements io.Reader.
func (r *lastWords) Read(p []byte) (int, error) {
	n, err := r.pipe.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) && r.left > 0 {
		n, err = readNow(r.pipe, p[:min(len(p), r.left)])
		r.left -= n
	}
	return n, err
}
