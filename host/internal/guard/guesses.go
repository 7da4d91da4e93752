package guard

import (
	"maps"
	"math"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// guessBurst is how many wrong tokens may come from one address at once.
	guessBurst = 10
	// guessInterval is what it takes until one more may.
	guessInterval = 6 * time.Second
	// maxGuessers is how many addresses are told apart; those beyond it share
	// one bound.
	maxGuessers = 4096
)

// guesses are the wrong tokens of late, by where they came from.
type guesses struct {
	mu   sync.Mutex
	from map[netip.Prefix]*rate.Limiter
}

func newGuesses() *guesses { return &guesses{from: make(map[netip.Prefix]*rate.Limiter)} }

// count takes note of a wrong token, and returns how long its sender is to wait
// if there were too many: 0 if there were not.
func (g *guesses) count(remote string, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	limiter := g.limiter(networkOf(remote), now)
	if limiter.AllowN(now, 1) {
		return 0
	}
	return time.Duration((1 - limiter.TokensAt(now)) * float64(guessInterval))
}

func (g *guesses) limiter(network netip.Prefix, now time.Time) *rate.Limiter {
	if g.from[network] == nil && len(g.from) >= maxGuessers {
		maps.DeleteFunc(g.from, func(_ netip.Prefix, l *rate.Limiter) bool { return l.TokensAt(now) >= guessBurst })
	}
	if g.from[network] == nil && len(g.from) >= maxGuessers {
		network = netip.Prefix{}
	}
	if g.from[network] == nil {
		g.from[network] = rate.NewLimiter(rate.Every(guessInterval), guessBurst)
	}
	return g.from[network]
}

// networkOf is whom an address is counted for: of IPv6 a whole /64, in which
// anybody who has one can take as many as they like. The zero Prefix is for what
// is no address.
func networkOf(remote string) netip.Prefix {
	from, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	address, bits := from.Addr().Unmap().WithZone(""), 32
	if address.Is6() {
		bits = 64
	}
	network, err := address.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return network
}

// retryAfter is a time as the header Retry-After has it.
func retryAfter(wait time.Duration) string { return strconv.Itoa(int(math.Ceil(wait.Seconds()))) }
