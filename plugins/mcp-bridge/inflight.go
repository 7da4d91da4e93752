package main

import (
	"context"
	"sync"
)

// inFlight are requests of a client that are being answered beside each other.
// The zero value is ready for use.
type inFlight struct {
	mu    sync.Mutex
	calls map[string]*context.CancelFunc // by their ids
}

// begin takes note of a call, until done is called.
func (f *inFlight) begin(life context.Context, id []byte) (ctx context.Context, done func()) {
	ctx, cancel := context.WithCancel(life)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls == nil {
		f.calls = make(map[string]*context.CancelFunc)
	}
	f.calls[string(id)] = &cancel
	return ctx, func() {
		cancel()
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.calls[string(id)] == &cancel { // and not of a call that came after the answer
			delete(f.calls, string(id))
		}
	}
}

// giveUp ends a call, and reports whether there was one.
func (f *inFlight) giveUp(id []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	cancel := f.calls[string(id)]
	if cancel == nil {
		return false
	}
	(*cancel)()
	return true
}
