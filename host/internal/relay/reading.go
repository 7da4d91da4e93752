package relay

import (
	"context"
	"sync"
	"time"
)

const (
	// readDelay is after how long at the latest the lists of a plugin are read
	// that nobody needs.
	readDelay = 5 * time.Second
	// readPatience is how long those wait for them who do.
	readPatience = 2 * time.Second
)

// reading is when the lists of an instance are read first: as soon as somebody
// needs them, and else when it has come to rest. A plugin has to do much for the
// first time then, and while many start they wait for nothing but the processors.
type reading struct {
	begin  sync.Once
	wanted chan struct{} // closed when it is to begin
	end    sync.Once
	over   chan struct{} // closed when nobody is to wait for it any more
}

func newReading() reading {
	return reading{wanted: make(chan struct{}), over: make(chan struct{})}
}

func (r *reading) want() {
	r.begin.Do(func() {
		close(r.wanted)
		time.AfterFunc(readPatience, r.ended)
	})
}

func (r *reading) ended() { r.end.Do(func() { close(r.over) }) }

// due waits until the lists are to be read, or ctx ends.
func (r *reading) due(ctx context.Context) {
	select {
	case <-r.wanted:
	case <-time.After(readDelay):
	case <-ctx.Done():
	}
}

// Read has it be read now what the service has, unless that was done.
func (s *Service) Read() {
	if b, err := s.current(); err == nil {
		b.reading.want()
	}
}

// unread returns what is closed when it is known what the service has, or nil if
// it is, or nobody can be asked.
func (s *Service) unread() <-chan struct{} {
	if s.read.Load() {
		return nil
	}
	b, err := s.current()
	if err != nil {
		return nil
	}
	b.reading.want()
	return b.reading.over
}

// await waits until it is known what services have, or ctx ends. All that are not
// known are read at the same time.
func await(ctx context.Context, services ...*Service) {
	var unread []<-chan struct{}
	for _, s := range services {
		if over := s.unread(); over != nil {
			unread = append(unread, over)
		}
	}
	for _, over := range unread {
		select {
		case <-over:
		case <-ctx.Done():
			return
		}
	}
}
