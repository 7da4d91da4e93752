package stdio

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
)

var errTooLong = fmt.Errorf("a message has more than %d MiB", maxLine>>20)

// errLeft says that the client has left, which is no failure.
var errLeft = errors.New("the client has closed standard input or output")

// lines writes whole lines, one at a time.
type lines struct {
	mu     sync.Mutex
	w      io.Writer
	failed context.CancelCauseFunc
}

func (l *lines) write(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.w.Write(append(line[:len(line):len(line)], '\n'))
	switch {
	case err == nil:
	case errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrClosedPipe):
		l.failed(errLeft)
	default:
		l.failed(fmt.Errorf("cannot write to standard output: %w", err))
	}
}

// readLine reads a line without what is around it. One that is too long is read
// to its end, and is errTooLong.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line) <= maxLine {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if len(line) > maxLine {
			return nil, errTooLong
		}
		return bytes.TrimSpace(line), err
	}
}

// jsonText is a text as JSON has it.
func jsonText(text string) []byte {
	encoded, err := json.Marshal(text)
	if err != nil {
		return []byte(`"error"`) // a string is always encoded
	}
	return encoded
}
