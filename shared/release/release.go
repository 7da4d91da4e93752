// Package release gives memory back to the system when many sessions have
// ended. The runtime alone would do so minutes later, since a program that has
// become idle collects every two minutes, and it would keep what it held at its
// last collections. It never gives back the descriptors of goroutines, of about
// half a kilobyte each: as many stay as there once were at the same time. So they
// had better not lie among other things, whose memory would stay with them.
package release

import (
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// many is how many sessions must have ended. To give back what they held
	// costs far less than to open them did.
	many = 100
	// quiet is how long none must have ended since.
	quiet = time.Second
	// pause is how much time lies between two times at least.
	pause = 10 * time.Second
	// batch is for how many sessions descriptors of goroutines are made at once,
	// when there are more than ever before.
	batch = 256
	// each is how many goroutines a session has.
	each = 2
)

// Releaser counts what begins and ends. Its zero value is ready for use.
type Releaser struct {
	mu       sync.Mutex
	live     int
	prepared int // for how many sessions there are descriptors
	ended    int
	last     time.Time
	timer    *time.Timer // nil before the first time
}

// Began says that a session is about to begin, before its goroutines are started.
func (r *Releaser) Began() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.live++; r.live <= max(r.prepared, many) {
		return
	}
	r.prepared = r.live + batch
	prepare(batch * each)
}

// prepare has so many goroutines be there at once. Those that are started later
// get their descriptors, which lie side by side.
func prepare(n int) {
	end := make(chan struct{})
	for range n {
		go func() { <-end }()
	}
	close(end)
}

// Ended says that a session has ended. It does not wait.
func (r *Releaser) Ended() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live--
	if r.ended++; r.ended < many {
		return
	}
	wait := max(quiet, time.Until(r.last.Add(pause)))
	if r.timer == nil {
		r.timer = time.AfterFunc(wait, r.release)
		return
	}
	r.timer.Reset(wait)
}

func (r *Releaser) release() {
	r.mu.Lock()
	r.ended, r.last = 0, time.Now()
	r.mu.Unlock()
	runtime.GC() // what is in a sync.Pool outlives one collection
	debug.FreeOSMemory()
}
