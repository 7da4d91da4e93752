package shared

import (
	"context"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// outputCheck is how often the size of the file is looked at that takes a
// plugin's output while it has no host.
const outputCheck = time.Second

// keeper has a plugin go on when its host is gone, until another one adopts it
// or its time is over.
type keeper struct {
	ttl       time.Duration
	streams   *streams
	adoptions chan adoption
	// known says that a host has asked the plugin what it is. Before that none
	// can find it again.
	known atomic.Bool
}

// adoption is a host that takes over.
type adoption struct {
	request *plughostv1.AdoptRequest
	answer  chan<- adopted // has room for the one answer
}

type adopted struct {
	output []string
	err    error
}

func newKeeper(dir string, ttl time.Duration) *keeper {
	return &keeper{ttl: ttl, streams: newStreams(dir), adoptions: make(chan adoption)}
}

// run returns when the plugin is to end: upon a signal, or some time after the
// last of its hosts is gone.
func (k *keeper) run(hostGone <-chan struct{}, terminate <-chan os.Signal) {
	var orphaned orphanhood
	defer orphaned.end()
	defer k.streams.release()
	for {
		select {
		case <-terminate:
			return
		case <-hostGone:
			if !k.known.Load() {
				return
			}
			hostGone = nil
			k.streams.toFile()
			orphaned.begin(k.ttl)
		case <-orphaned.over():
			return
		case <-orphaned.check():
			k.streams.boundFile()
		case a := <-k.adoptions:
			gone, output, err := k.streams.adopt(a.request)
			if err == nil {
				hostGone = gone
				orphaned.end()
			}
			a.answer <- adopted{output, err}
		}
	}
}

// adopt has run take the host that called for the plugin's own.
func (k *keeper) adopt(ctx context.Context, request *plughostv1.AdoptRequest) (*plughostv1.AdoptResponse, error) {
	answer := make(chan adopted, 1)
	select {
	case k.adoptions <- adoption{request, answer}:
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	got := <-answer
	if got.err != nil {
		return nil, status.Error(codes.Internal, got.err.Error())
	}
	return &plughostv1.AdoptResponse{Output: got.output}, nil
}

// orphanhood is the time without a host.
type orphanhood struct {
	timer  *time.Timer
	ticker *time.Ticker
}

func (o *orphanhood) begin(ttl time.Duration) {
	o.timer, o.ticker = time.NewTimer(ttl), time.NewTicker(outputCheck)
}

func (o *orphanhood) end() {
	if o.timer != nil {
		o.timer.Stop()
		o.ticker.Stop()
		o.timer, o.ticker = nil, nil
	}
}

func (o *orphanhood) over() <-chan time.Time {
	if o.timer == nil {
		return nil
	}
	return o.timer.C
}

func (o *orphanhood) check() <-chan time.Time {
	if o.ticker == nil {
		return nil
	}
	return o.ticker.C
}
