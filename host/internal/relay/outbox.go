package relay

import (
	"slices"
	"sync"
	"time"
)

const (
	// maxWaiting and maxWaitingBytes bound what waits for a client that does
	// not read. Answers are not counted.
	maxWaiting      = 1024
	maxWaitingBytes = 1 << 20
)

// item is a message on its way to a client: head, with another id and the rest
// behind it if the id is not to be the one that the plugin wrote.
type item struct {
	head, id, tail []byte
	status         int      // HTTP's, if it is the whole response, or 0
	of             *Service // whose plugin said it by itself, or nil
	list           string   // that has changed, if the message says that
}

func (i item) size() int { return len(i.head) + len(i.id) + len(i.tail) }

// outbox holds what is to be written to one client. Who puts something in never
// waits.
type outbox struct {
	mu      sync.Mutex
	items   []item
	bytes   int
	closed  bool           // nothing comes any more
	over    chan struct{}  // closed then
	hanging *time.Duration // the client is to go, and to come again after that
	wake    chan struct{}  // holds one when there is something to take
}

func (o *outbox) init() { o.wake, o.over = make(chan struct{}, 1), make(chan struct{}) }

// offer adds a message, unless too much is waiting. That a list has changed is
// never too much, and waits once. It reports whether the message is waiting.
func (o *outbox) offer(i item) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed || i.list == "" && !o.fits(i):
		return false
	case i.list == "" || !o.tells(i.list):
		o.add(i)
	}
	return true
}

// offerOnce adds a message unless too much is waiting, or the same one is.
func (o *outbox) offerOnce(i item) {
	if !o.has(i) {
		o.offer(i)
	}
}

// fits reports whether a message is not too much. The lock is held.
func (o *outbox) fits(i item) bool {
	return len(o.items) < maxWaiting && (len(o.items) == 0 || o.bytes+i.size() <= maxWaitingBytes)
}

// tells reports whether it is waiting that a list has changed. The lock is held.
func (o *outbox) tells(list string) bool {
	return slices.ContainsFunc(o.items, func(i item) bool { return i.list == list })
}

// has reports whether the same message is waiting.
func (o *outbox) has(i item) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.items, func(other item) bool { return other.id == nil && string(other.head) == string(i.head) })
}

// add adds a message. The lock is held.
func (o *outbox) add(i item) {
	o.items = append(o.items, i)
	o.bytes += i.size()
	o.signal()
}

// close adds the last message.
func (o *outbox) close(last item) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	o.items = append(o.items, last)
	o.closed = true
	close(o.over)
	o.signal()
}

// hangUp has the client go after what is there, and come again.
func (o *outbox) hangUp(retryAfter time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.hanging = &retryAfter
		o.signal()
	}
}

// taken is what was in an outbox.
type taken struct {
	items []item
	last  bool           // nothing comes after them
	retry *time.Duration // the client is to go, and to come again after that
}

// size is how many bytes wait, with the answer.
func (o *outbox) size() (bytes int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, i := range o.items {
		bytes += i.size()
	}
	return bytes
}

// take empties the outbox.
func (o *outbox) take() taken {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := taken{items: o.items, last: o.closed, retry: o.hanging}
	o.items, o.bytes, o.hanging = nil, 0, nil
	return t
}

// keep takes out the messages for which ok does not hold.
func (o *outbox) keep(ok func(item) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.items = slices.DeleteFunc(o.items, func(i item) bool {
		if ok(i) {
			return false
		}
		o.bytes -= i.size()
		return true
	})
}

// putBack puts what could not be written before what has come since. Of that what
// is too much now is dropped.
func (o *outbox) putBack(items []item) {
	if len(items) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	since := o.items
	o.items, o.bytes = slices.Clip(items), 0
	for _, i := range items {
		o.bytes += i.size()
	}
	for n, i := range since {
		last := o.closed && n == len(since)-1
		if last || i.list == "" && o.fits(i) || i.list != "" && !o.tells(i.list) {
			o.add(i)
		}
	}
	o.signal()
}

// again says once more that there is something to take: who heard it did not.
func (o *outbox) again() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.signal()
}

// abandon has nobody take what is there, which it returns, nor what comes.
func (o *outbox) abandon() []item {
	o.mu.Lock()
	defer o.mu.Unlock()
	waiting := o.items
	o.items, o.bytes = nil, 0
	if !o.closed {
		o.closed = true
		close(o.over)
	}
	return waiting
}

// signal says that there is something to take. The lock is held.
func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}
