package guard

import (
	"context"
	"net/http"
	"sync"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/shared/mcphttp"
)

// open are the requests that are being answered, by the names of their callers.
type open struct {
	mu      sync.Mutex
	callers map[string]*requests
}

// requests are those of one caller.
type requests struct {
	answering int
	listening map[*context.CancelFunc]bool
}

func newOpen() *open { return &open{callers: make(map[string]*requests)} }

// begin counts a request of a caller, unless there are too many. done is to be
// called when it has ended; ctx ends before if the caller may not listen any
// more.
func (o *open) begin(name string, r *http.Request, limits config.GatewayLimits) (ctx context.Context, done func(), ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	of := o.callers[name]
	if of == nil {
		of = &requests{listening: make(map[*context.CancelFunc]bool)}
		o.callers[name] = of
	}
	if !mcphttp.OnlyListens(r) {
		if of.answering >= limits.Requests {
			return nil, nil, false
		}
		of.answering++
		return r.Context(), func() { o.end(name, of, func() { of.answering-- }) }, true
	}
	if len(of.listening) >= limits.Listeners {
		return nil, nil, false
	}
	ctx, cancel := context.WithCancel(r.Context())
	of.listening[&cancel] = true
	return ctx, func() {
		cancel()
		o.end(name, of, func() { delete(of.listening, &cancel) })
	}, true
}

func (o *open) end(name string, of *requests, uncount func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	uncount()
	if of.answering == 0 && len(of.listening) == 0 {
		delete(o.callers, name)
	}
}

// endListening ends the requests of a caller that only listen. Calls go on.
func (o *open) endListening(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if of := o.callers[name]; of != nil {
		for cancel := range of.listening {
			(*cancel)()
		}
	}
}
