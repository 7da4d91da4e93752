package relay

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

func endedContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// slowDeadlines is a response on which it takes its time to set a deadline.
type slowDeadlines struct {
	http.ResponseWriter
	set []time.Time
}

func (w *slowDeadlines) SetWriteDeadline(deadline time.Time) error {
	if !deadline.IsZero() {
		time.Sleep(time.Second)
	}
	w.set = append(w.set, deadline)
	return nil
}

// The connection's next request has no deadline of the one before.
func TestHurryIsOverWhenItIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &slowDeadlines{ResponseWriter: httptest.NewRecorder()}
		ctx, cancel := context.WithCancel(t.Context())
		stop := hurry(ctx, w)
		cancel()
		synctest.Wait() // the deadline is being set
		stop()
		if n := len(w.set); n != 2 || !w.set[n-1].IsZero() {
			t.Errorf("the deadlines are %v", w.set)
		}
	})
}
