package relay

import "sync"

const (
	// maxPosted and maxPostedBytes bound what waits for a plugin that does not
	// read.
	maxPosted      = 1024
	maxPostedBytes = 1 << 20
)

// posting is what is to be sent on a link without anybody waiting until it is:
// what the relay itself answers, and notifications. One goroutine sends it, while
// there is some.
type posting struct {
	mu      sync.Mutex
	waiting []posted
	bytes   int
	sending bool
}

type posted struct {
	message []byte
	over    chan struct{} // closed when it was sent, or will not be
}

// post has a message be sent, unless too much is waiting. What it returns is closed
// when the message was sent, or will not be.
func (l *link) post(message []byte) (over <-chan struct{}) {
	m, p := posted{message, make(chan struct{})}, &l.posting
	p.mu.Lock()
	defer p.mu.Unlock()
	full := len(p.waiting) >= maxPosted || len(p.waiting) > 0 && p.bytes+len(message) > maxPostedBytes
	if full || !p.sending && !l.backend.service.run(l.sendPosted) {
		close(m.over)
		return m.over
	}
	p.sending = true
	p.waiting = append(p.waiting, m)
	p.bytes += len(message)
	return m.over
}

// take returns what is waiting. If that is nothing, nobody sends any more.
func (p *posting) take() []posted {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.waiting
	p.waiting, p.bytes = nil, 0
	p.sending = len(taken) > 0
	return taken
}

// sendPosted sends what is waiting, until nothing is.
func (l *link) sendPosted() {
	for l.sendWaiting() {
	}
}

// sendWaiting sends what is waiting when it is its turn, and reports whether there
// was anything.
func (l *link) sendWaiting() bool {
	err := l.turn(l.ctx, nil)
	if err == nil {
		defer func() { <-l.sending }()
	}
	taken := l.posting.take()
	for _, m := range taken {
		if err == nil {
			err = l.write(m.message, nil)
		}
		close(m.over)
	}
	return len(taken) > 0
}
