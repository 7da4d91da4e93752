package guard

import (
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// requestIDHeader carries the id of a request, from the client or to it, and on
// to the plugin.
const requestIDHeader = "X-Request-Id"

// maxRequestID is how many bytes an id may have that a client gave.
const maxRequestID = 128

// identify gives a request an id, unless it has one that can be put into logs
// as it is.
func identify(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(requestIDHeader)
	if len(r.Header.Values(requestIDHeader)) != 1 || !isSane(id) {
		id = rand.Text()
		r.Header.Set(requestIDHeader, id)
	}
	w.Header().Set(requestIDHeader, id)
}

func isSane(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for _, c := range []byte(id) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '-', c == '_', c == '.', c == ':', c == '/', c == '+', c == '=':
		default:
			return false
		}
	}
	return true
}

// body is that of a request, of which there may be too much.
type body struct {
	io.ReadCloser
	control  *http.ResponseController
	tooLarge atomic.Bool
	read     atomic.Int64
}

// limitTime bounds the time that the body of a request may take, also if nobody
// reads it: before it answers, the server does.
func limitTime(w http.ResponseWriter, r *http.Request, timeout time.Duration) {
	if r.Body != http.NoBody {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout))
	}
}

// limitBody bounds the size of the body of a request.
func limitBody(w http.ResponseWriter, r *http.Request, most int64) *body {
	b := &body{ReadCloser: http.MaxBytesReader(w, r.Body, most), control: http.NewResponseController(w)}
	if r.Body != http.NoBody {
		r.Body = b
	}
	return b
}

// Read implements io.Reader. The time is bounded until the body's end: after it
// the server waits for the connection's end by the same deadline.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read.Add(int64(n))
	if err == nil {
		return n, nil
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		b.tooLarge.Store(true)
	}
	_ = b.control.SetReadDeadline(time.Time{})
	return n, err
}
