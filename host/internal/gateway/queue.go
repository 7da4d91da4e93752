package gateway

import "sync"

// queue runs jobs in goroutines, those of one key one after the other, and
// never blocks who adds one.
type queue struct {
	mu     sync.Mutex
	jobs   map[string][]func() // a key is there while one of its jobs runs
	closed bool
	wg     sync.WaitGroup
}

func newQueue() *queue {
	return &queue{jobs: make(map[string][]func())}
}

func (q *queue) add(key string, job func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	if waiting, running := q.jobs[key]; running {
		q.jobs[key] = append(waiting, job)
		return
	}
	q.jobs[key] = nil
	q.wg.Go(func() { q.run(key, job) })
}

func (q *queue) run(key string, job func()) {
	for job != nil {
		job()
		job = q.next(key)
	}
}

func (q *queue) next(key string) func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := q.jobs[key]
	if len(waiting) == 0 || q.closed {
		delete(q.jobs, key)
		return nil
	}
	q.jobs[key] = waiting[1:]
	return waiting[0]
}

// close drops what has not begun and waits for the rest.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.wg.Wait()
}
