package probes

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// The kernel does most of the work of going over /proc, and does it on several
// processors at once. Two are taken, not all: it is not to be noticed by those
// who have better things to do. Fewer processes than the second number are not
// worth it.
const (
	workers = 2
	fewest  = 256
)

// partSize is how many pids a worker takes at a time: few enough for all workers
// to be ready at the same time.
const partSize = 64

// What a worker lists at a time, in bytes of directory entries. The first time it is
// enough to know whether another worker is worth it before there is work, and then
// little, for all workers to be ready at the same time.
const (
	firstEntries = 8 << 10
	nextEntries  = 2 << 10
)

// overAll gives the pids of all processes of an open /proc to f, some at a time,
// first by one worker and then, if there turn out to be many, by another one too.
// While one of them lists more the other one works.
func overAll(proc int, f func(pids []int) error) error {
	w := &walk{proc: proc, f: f}
	w.work()
	w.helper.Wait()
	return w.err
}

// walk is one way over all processes.
type walk struct {
	proc   int
	f      func(pids []int) error
	helper sync.WaitGroup

	mu     sync.Mutex // of the position in proc, and of all below
	listed int        // pids
	helped bool
	over   bool
	err    error
}

// batch is what a worker takes at a time, in memory that is used again and again.
type batch struct {
	entries [firstEntries]byte
	pids    []int
}

var batches = sync.Pool{New: func() any { return new(batch) }}

func (w *walk) work() {
	b := batches.Get().(*batch)
	defer batches.Put(b)
	for w.next(b) {
		if err := w.f(b.pids); err != nil {
			w.fail(err)
		}
	}
}

// next lists some pids more, and reports whether it did.
func (w *walk) next(b *batch) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return false
	}
	size := nextEntries
	if w.listed == 0 {
		size = firstEntries
	}
	n, err := retry(func() (int, error) { return unix.ReadDirent(w.proc, b.entries[:size]) })
	if err != nil {
		w.err = fmt.Errorf("read /proc: %w", err)
	}
	if err != nil || n <= 0 {
		w.over = true
		return false
	}
	b.pids = appendNumbers(b.pids[:0], b.entries[:n])
	w.listed += len(b.pids)
	if w.listed >= fewest && !w.helped && runtime.GOMAXPROCS(0) >= workers {
		w.helped = true
		w.helper.Go(w.work)
	}
	return true
}

func (w *walk) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over, w.err = true, errors.Join(w.err, err)
}

// inParts divides a list of pids among workers.
func inParts(pids []int, f func(pids []int) error) error {
	if len(pids) < fewest || runtime.GOMAXPROCS(0) < workers {
		return f(pids)
	}
	var errs [workers]error
	var all sync.WaitGroup
	var next atomic.Int64
	for i := range workers {
		all.Go(func() {
			for errs[i] == nil {
				from := int(next.Add(partSize)) - partSize
				if from >= len(pids) {
					return
				}
				errs[i] = f(pids[from:min(from+partSize, len(pids))])
			}
		})
	}
	all.Wait()
	return errors.Join(errs[:]...)
}
