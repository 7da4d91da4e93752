//go:build darwin || freebsd

package probes

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// wait returns nil once the process has exited, or the cause of ctx's end.
//
// The goroutine is parked on a channel that the one watcher of all waits
// closes. What was woken looks for itself, at the kqueue of its own handle.
func (h *watched) wait(ctx context.Context) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		woken, stop, err := exits.watch(h.pid)
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
		// Only now, so that an exit is seen here or told of there.
		exited, exitErr := h.exited()
		switch {
		case exited || exitErr != nil:
			stop()
			return exitErr
		case err != nil:
			// The process is on its way out, a moment before the event.
			if err := sleep(ctx, 100*time.Microsecond); err != nil {
				return err
			}
			continue
		}
		select {
		case <-woken:
		case <-ctx.Done():
			stop()
			return context.Cause(ctx)
		}
	}
}

// exits wakes those who wait for processes.
var exits watcher

// watcher waits for the exits of any number of processes with one kqueue and
// one thread, both of which it keeps once it has them. (Go's own poller takes
// no kqueue: it can't be made non-blocking.)
//
// It goes by pid. So it may wake somebody for the exit of a process that had the
// pid before, but never fails to wake for one that has it now: a pid's event is
// added after the waiter is on the list, and an older one that is still on its
// way wakes the waiter, who comes back.
type watcher struct {
	mu      sync.Mutex
	running bool
	kq      int
	waiters map[int]map[chan struct{}]struct{} // by pid
}

// watch returns a channel that is closed when a process with that pid exits,
// and a function to be called if that is not to be waited for any more. The
// error is ESRCH if there is no process with that pid that has not exited.
func (w *watcher) watch(pid int) (woken <-chan struct{}, stop func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	stop = func() {}
	if err := w.run(); err != nil {
		return nil, stop, err
	}
	c := make(chan struct{})
	if w.waiters[pid] == nil {
		w.waiters[pid] = make(map[chan struct{}]struct{})
	}
	w.waiters[pid][c] = struct{}{}
	if err := watchExit(w.kq, pid); err != nil {
		w.drop(pid, c)
		return nil, stop, err
	}
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.drop(pid, c)
	}, nil
}

// drop takes a waiter off the list, and the last one's event out of the kqueue.
func (w *watcher) drop(pid int, c chan struct{}) {
	all, ok := w.waiters[pid]
	if !ok {
		return
	}
	delete(all, c)
	if len(all) > 0 {
		return
	}
	delete(w.waiters, pid)
	change := make([]unix.Kevent_t, 1)
	unix.SetKevent(&change[0], pid, unix.EVFILT_PROC, unix.EV_DELETE)
	_, _ = retry(func() (int, error) { return unix.Kevent(w.kq, change, nil, nil) })
}

// run starts the watcher's goroutine, if it does not run.
func (w *watcher) run() error {
	if w.running {
		return nil
	}
	kq, err := newKqueue()
	if err != nil {
		return err
	}
	w.running, w.kq, w.waiters = true, kq, make(map[int]map[chan struct{}]struct{})
	go w.loop(kq)
	return nil
}

func (w *watcher) loop(kq int) {
	events := make([]unix.Kevent_t, 64)
	for {
		n, err := retry(func() (int, error) { return unix.Kevent(kq, nil, events, nil) })
		w.mu.Lock()
		if err != nil {
			// Everybody comes back, and to another kqueue.
			for pid := range w.waiters {
				w.wake(pid)
			}
			w.running = false
			w.mu.Unlock()
			_ = unix.Close(kq)
			return
		}
		for _, e := range events[:n] {
			w.wake(int(e.Ident))
		}
		w.mu.Unlock()
	}
}

func (w *watcher) wake(pid int) {
	for c := range w.waiters[pid] {
		close(c)
	}
	delete(w.waiters, pid)
}
