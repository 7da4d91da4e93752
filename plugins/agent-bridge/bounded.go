package main

import (
	"errors"
	"io"
	"mime"
	"net/http"
)

// maxAnswer bounds an answer, or an event of a stream, in bytes.
const maxAnswer = 32 << 20

var errLongAnswer = errors.New("the agent's answer is too long")

// bounded is the body of an answer, whose reader would take it all into memory.
type bounded struct {
	io.ReadCloser
	most    int
	stream  bool // of events, each of which ends with an empty line
	size    int
	inALine bool
}

func bound(response *http.Response, most int) {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	response.Body = &bounded{ReadCloser: response.Body, most: most, stream: kind == "text/event-stream"}
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	for _, c := range p[:n] {
		if b.size++; b.size > b.most {
			return 0, errLongAnswer
		}
		switch {
		case c == '\n' && !b.inALine && b.stream:
			b.size = 0
		case c != '\r':
			b.inALine = c != '\n'
		}
	}
	return n, err
}
