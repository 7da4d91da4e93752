package guard

import (
	"net/http"
	"time"
)

// answer is the ResponseWriter of a request: it counts, and gives up on a client
// that does not read.
type answer struct {
	http.ResponseWriter
	control *http.ResponseController
	body    *body
	timeout time.Duration
	status  int
	sent    int64
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter. Whatever a handler makes of a body
// that it could not read whole, the client is told what was wrong with it.
func (a *answer) WriteHeader(code int) {
	if code >= 400 && a.body.tooLarge.Load() {
		code = http.StatusRequestEntityTooLarge
	}
	if a.status == 0 && code >= 200 {
		a.status = code
	}
	a.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	a.limit()
	n, err := a.ResponseWriter.Write(p)
	a.unlimit()
	a.sent += int64(n)
	return n, err
}

// Flush implements http.Flusher.
func (a *answer) Flush() { _ = a.FlushError() }

// FlushError is for http.ResponseController.
func (a *answer) FlushError() error {
	a.limit()
	defer a.unlimit()
	return a.control.Flush()
}

// end bounds what is still to be written once the handler has returned.
func (a *answer) end() { a.limit() }

func (a *answer) limit() { _ = a.control.SetWriteDeadline(time.Now().Add(a.timeout)) }

// unlimit is needed since a deadline also ends a stream on which nothing is
// written.
func (a *answer) unlimit() { _ = a.control.SetWriteDeadline(time.Time{}) }

func (a *answer) code() int {
	if a.status == 0 {
		return http.StatusOK
	}
	return a.status
}
