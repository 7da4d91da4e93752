package supervise

import (
	"math"
	"time"

	"github.com/plughost/plughost/host/internal/config"
)

// exitConfig is EX_CONFIG of sysexits.h: a plugin that ends with it says that
// it cannot work as it is configured, so trying again is useless.
const exitConfig = 78

// history is what the restart policy remembers of a service's failures. It
// outlives the instances and does no I/O.
type history struct {
	consecutive int         // failures since the service last held for reset_after
	failures    []time.Time // within the policy's window, oldest first; kept only for a limit
}

// decision is what the policy says after a failure.
type decision struct {
	retry bool
	delay time.Duration // before the next start
}

// next records a failure at now, of an instance that had been ready for
// readyFor (0 if it never was), and decides. random is in [0, 1) and spreads
// the delays of services that fail together.
func (h *history) next(policy config.Restart, now time.Time, readyFor time.Duration, random float64) decision {
	if readyFor >= policy.ResetAfter && readyFor > 0 {
		h.consecutive = 0
	}
	h.consecutive++
	if policy.Limit > 0 {
		h.failures = append(h.failures, now)
		for now.Sub(h.failures[0]) > policy.Within {
			h.failures = h.failures[1:]
		}
		if len(h.failures) > policy.Limit {
			return decision{}
		}
	}
	return decision{retry: true, delay: delay(policy, h.consecutive, random)}
}

// delay is the wait before the n-th restart in a row.
func delay(policy config.Restart, n int, random float64) time.Duration {
	if policy.Delay == 0 {
		return 0 // times infinity it would be no number
	}
	d := float64(policy.Delay) * math.Pow(policy.Factor, float64(n-1))
	d = min(d, float64(policy.MaxDelay)) // also of +Inf
	return time.Duration(d * (1 + policy.Jitter*(2*random-1)))
}

// applies reports whether the policy restarts a service that ended so. An exit
// status of -1 is an end by a signal, or a start that failed otherwise.
func applies(policy string, status int) bool {
	switch {
	case status == exitConfig, policy == config.RestartNever:
		return false
	case policy == config.RestartOnFailure:
		return status != 0
	default:
		return true
	}
}
