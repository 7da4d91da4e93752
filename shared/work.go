package shared

import (
	"context"
	"sync"
)

// Work counts what a plugin has in flight, so that it can be drained: asked to
// begin nothing new and to finish what it has begun. The zero value is ready.
type Work struct {
	mu       sync.Mutex
	inFlight int
	draining bool
	idle     chan struct{} // closed when draining and nothing is in flight
}

// Begin claims a place for one piece of work and returns the function that
// ends it, to be called once. It reports false when the plugin is draining:
// the work must be refused then.
func (w *Work) Begin() (end func(), ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.draining {
		return nil, false
	}
	w.inFlight++
	return sync.OnceFunc(w.end), true
}

func (w *Work) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inFlight--
	if w.draining && w.inFlight == 0 {
		close(w.idle)
	}
}

// Draining reports whether Drain was called.
func (w *Work) Draining() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.draining
}

// Idle reports whether nothing is in flight.
func (w *Work) Idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.inFlight == 0
}

// Drain refuses new work from now on and waits until nothing is in flight.
// It returns ctx's error if that comes first; work stays refused.
func (w *Work) Drain(ctx context.Context) error {
	w.mu.Lock()
	if !w.draining {
		w.draining = true
		w.idle = make(chan struct{})
		if w.inFlight == 0 {
			close(w.idle)
		}
	}
	idle := w.idle
	w.mu.Unlock()

	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
