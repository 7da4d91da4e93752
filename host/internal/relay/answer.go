package relay

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/plughost/plughost/shared/wire"
)

const (
	// keepAlive is how often a stream of events says that it lives, for what is
	// on the way.
	keepAlive = 30 * time.Second
	// closeGrace is how long a client may take to read when its session has
	// ended.
	closeGrace = 5 * time.Second
	// largeAnswer is from how many bytes on an answer may wait for the client.
	largeAnswer = 64 << 10
)

// reply is the response to a request that has a call.
type reply struct {
	w     http.ResponseWriter
	r     *http.Request
	call  *call
	quiet time.Duration   // after which it becomes a stream of events
	until context.Context // of what the call belongs to: its end ends the reply, soon
	// statuses says that errors have their own HTTP status.
	statuses bool
	// before, if there is one, is called before the headers are written. It is told
	// whether the answer is known.
	before func(answered bool)
	// session is whose client can come back to the call, if that has a stream.
	session *session
	primed  bool // the client knows by what it can come back
}

// write writes the answer, and all that comes before it. It reports whether the
// client has it all.
func (y *reply) write() bool {
	timer := time.NewTimer(y.quiet)
	defer timer.Stop()
	select {
	case <-y.call.out.wake:
	case <-timer.C:
	case <-y.r.Context().Done():
	}
	if y.r.Context().Err() != nil {
		return false
	}
	t := y.call.out.take()
	if y.before != nil {
		y.before(t.last)
	}
	if t.last && len(t.items) == 1 {
		return y.plain(t.items[0])
	}
	return y.stream(t)
}

// plain writes an answer as the whole response.
func (y *reply) plain(i item) bool {
	header := y.w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(i.size()))
	if y.statuses && i.status != 0 {
		y.w.WriteHeader(i.status)
	}
	if i.size() > largeAnswer {
		defer hurry(y.until, y.w)()
		return i.writeTo(y.w) == nil
	}
	_, err := y.w.Write(slices.Concat(i.head, i.id, i.tail)) // each write has its price
	return err == nil
}

// stream writes events until the answer is among them.
func (y *reply) stream(t taken) bool {
	if y.call.stream == "" {
		defer hurry(y.until, y.w)()
		return newEvents(y.w).pump(y.r.Context(), &y.call.out, t)
	}
	y.primed = true
	return y.session.stream(y.r.Context(), y.w, y.call, func(ctx context.Context, e *events) bool {
		if e.write("id: %s\ndata: \n\n", y.call.stream) != nil {
			y.call.out.putBack(t.items)
			return false
		}
		return e.pump(ctx, &y.call.out, t)
	})
}

// hurry gives a client that does not read little time when ctx ends. The
// function that it returns ends the watch.
func hurry(ctx context.Context, w http.ResponseWriter) (stop func()) {
	control := http.NewResponseController(w)
	hurried := make(chan struct{})
	unwatch := context.AfterFunc(ctx, func() {
		defer close(hurried)
		_ = control.SetWriteDeadline(time.Now().Add(closeGrace))
	})
	return func() {
		if !unwatch() {
			<-hurried
			_ = control.SetWriteDeadline(time.Time{}) // the connection may serve another request
		}
	}
}

// writeTo writes the message.
func (i item) writeTo(w io.Writer) error {
	for _, part := range [...][]byte{i.head, i.id, i.tail} {
		if len(part) == 0 {
			continue
		}
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// events is a response that is a stream of events.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func newEvents(w http.ResponseWriter) *events {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache, no-transform")
	w.WriteHeader(http.StatusOK)
	return &events{w, http.NewResponseController(w)}
}

func (e *events) write(format string, args ...any) error {
	if _, err := fmt.Fprintf(e.w, format, args...); err != nil {
		return err
	}
	return e.control.Flush()
}

func (e *events) message(i item) error {
	i.head, i.id, i.tail = wire.Line(i.head), bytes.TrimSpace(i.id), wire.Line(i.tail)
	if _, err := io.WriteString(e.w, "event: message\ndata: "); err != nil {
		return err
	}
	if err := i.writeTo(e.w); err != nil {
		return err
	}
	return e.write("\n\n")
}

// pump writes what is taken from an outbox, t first, until its last message,
// and reports whether that was written. It ends before if the client is gone or to
// go, and then leaves what it has not written.
func (e *events) pump(ctx context.Context, out *outbox, t taken) bool {
	if e.control.Flush() != nil {
		out.putBack(t.items)
		return false
	}
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	for {
		for n, i := range t.items {
			if e.message(i) != nil {
				out.putBack(t.items[n:])
				return false
			}
		}
		switch {
		case t.last:
			return true
		case t.retry != nil:
			_ = e.write("retry: %d\n\n", t.retry.Milliseconds())
			return false
		}
		t = taken{}
		select {
		case <-out.wake:
			if ctx.Err() != nil { // it ended at the same time
				out.again()
				return false
			}
			t = out.take()
		case <-alive.C:
			if e.write(": alive\n\n") != nil {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
}
