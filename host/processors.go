package main

import (
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/supervise"
)

const (
	// calmShare is the part of the processors on which a calm host computes. Of
	// what the cheapest call of a tool takes of a machine, a quarter is the host's.
	calmShare = 4
	// calmAfter is how long no service must have been starting or stopping.
	calmAfter = 2 * time.Second
)

// processors sets on how many processors the host computes: on all while services
// start or stop, which is much work that can be done side by side, and else on a
// part of them. To pass on a message takes several goroutines, each of which does
// little. With an idle processor beside it the runtime wakes a thread for each of
// them, which looks for work in vain, at the cost of those for whom the message is.
type processors struct {
	set func(all bool)

	mu     sync.Mutex
	moving map[config.Ref]struct{} // the services that are starting or stopping
	timer  *time.Timer             // nil before the first transition

	setting sync.Mutex
	some    bool // not all are used
}

// newProcessors returns one that does nothing if the environment says how many
// processors there are to be.
func newProcessors() *processors {
	p := &processors{moving: make(map[config.Ref]struct{}), set: useProcessors}
	if os.Getenv("GOMAXPROCS") != "" {
		p.set = func(bool) {}
	}
	return p
}

func useProcessors(all bool) {
	if all {
		runtime.SetDefaultGOMAXPROCS()
		return
	}
	runtime.GOMAXPROCS(max(1, runtime.GOMAXPROCS(0)/calmShare))
}

// watch takes the transitions of the services. It does not wait.
func (p *processors) watch(change supervise.Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := len(p.moving)
	if change.State == supervise.Starting || change.State == supervise.Stopping {
		p.moving[change.Service] = struct{}{}
	} else {
		delete(p.moving, change.Service)
	}
	switch {
	case before == 0 && len(p.moving) > 0:
		p.settleAfter(0)
	case len(p.moving) == 0:
		p.settleAfter(calmAfter)
	}
}

// settleAfter has the number be set after a while. The lock is held.
func (p *processors) settleAfter(delay time.Duration) {
	if p.timer == nil {
		p.timer = time.AfterFunc(delay, p.settle)
		return
	}
	p.timer.Reset(delay)
}

// settle sets the number that is right now. That may wait for a collection of
// garbage to end, so that it is nothing for the caller of watch.
func (p *processors) settle() {
	p.setting.Lock()
	defer p.setting.Unlock()
	p.mu.Lock()
	calm := len(p.moving) == 0
	p.mu.Unlock()
	if calm != p.some {
		p.some = calm
		p.set(!calm)
	}
}
