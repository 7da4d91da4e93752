package supervise

import (
	"math"
	"testing"
	"time"

	"github.com/plughost/plughost/host/internal/config"
)

// steady is a policy without chance and without a limit.
var steady = config.Restart{
	Policy:     config.RestartAlways,
	Delay:      time.Second,
	MaxDelay:   10 * time.Second,
	ResetAfter: 30 * time.Second,
	Within:     10 * time.Minute,
	Factor:     2,
}

func with(change func(*config.Restart)) config.Restart {
	policy := steady
	change(&policy)
	return policy
}

// failure is one failure and the delay that is expected after it.
type failure struct {
	after    time.Duration // since the failure before
	readyFor time.Duration
	want     time.Duration // gaveUp if there is no further try
}

const gaveUp = -1

func TestRestartPolicy(t *testing.T) {
	tests := []struct {
		name     string
		policy   config.Restart
		failures []failure
	}{
		{
			"delays grow by the factor up to the maximum",
			steady,
			[]failure{
				{0, 0, time.Second},
				{0, 0, 2 * time.Second},
				{0, 0, 4 * time.Second},
				{0, 0, 8 * time.Second},
				{0, 0, 10 * time.Second},
				{0, 0, 10 * time.Second},
			},
		},
		{
			"a factor of one keeps the delay",
			with(func(p *config.Restart) { p.Factor = 1 }),
			[]failure{{0, 0, time.Second}, {0, 0, time.Second}, {0, 0, time.Second}},
		},
		{
			"a fraction as factor",
			with(func(p *config.Restart) { p.Factor = 1.5 }),
			[]failure{{0, 0, time.Second}, {0, 0, 1500 * time.Millisecond}, {0, 0, 2250 * time.Millisecond}},
		},
		{
			"no delay stays none",
			with(func(p *config.Restart) { p.Delay = 0 }),
			[]failure{{0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
		},
		{
			"holding for reset_after begins at the first delay again",
			steady,
			[]failure{
				{0, 0, time.Second},
				{0, 0, 2 * time.Second},
				{time.Minute, 30 * time.Second, time.Second},
				{0, 29 * time.Second, 2 * time.Second},
			},
		},
		{
			"with a reset_after of nothing every ready instance resets, a failed start does not",
			with(func(p *config.Restart) { p.ResetAfter = 0 }),
			[]failure{{0, 0, time.Second}, {0, 0, 2 * time.Second}, {0, 1, time.Second}},
		},
		{
			"the limit counts restarts",
			with(func(p *config.Restart) { p.Limit = 2 }),
			[]failure{{0, 0, time.Second}, {0, 0, 2 * time.Second}, {0, 0, gaveUp}},
		},
		{
			"the limit counts only within its window",
			with(func(p *config.Restart) { p.Limit, p.Within = 2, time.Minute }),
			[]failure{
				{0, 0, time.Second},
				{40 * time.Second, 0, 2 * time.Second},
				{40 * time.Second, 0, 4 * time.Second},
				{10 * time.Second, 0, gaveUp},
			},
		},
		{
			"holding for reset_after does not forgive the limit",
			with(func(p *config.Restart) { p.Limit = 2 }),
			[]failure{
				{0, 0, time.Second},
				{time.Minute, 31 * time.Second, time.Second},
				{time.Minute, 31 * time.Second, gaveUp},
			},
		},
		{
			"a limit of nothing is no limit",
			with(func(p *config.Restart) { p.Limit, p.Factor = 0, 1 }),
			[]failure{{0, 0, time.Second}, {0, 0, time.Second}, {0, 0, time.Second}, {0, 0, time.Second}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var h history
			now := time.Unix(1e9, 0)
			for i, f := range test.failures {
				now = now.Add(f.after)
				got := h.next(test.policy, now, f.readyFor, 0.9) // jitter is 0
				switch {
				case f.want == gaveUp && got.retry:
					t.Errorf("failure %d: tries again after %v, want it to give up", i+1, got.delay)
				case f.want != gaveUp && (!got.retry || got.delay != f.want):
					t.Errorf("failure %d: got %+v, want a retry after %v", i+1, got, f.want)
				}
			}
		})
	}
}

func TestDelaysNeverLeaveTheirBounds(t *testing.T) {
	policies := map[string]config.Restart{
		"steady":       steady,
		"jitter":       with(func(p *config.Restart) { p.Jitter = 0.1 }),
		"most jitter":  with(func(p *config.Restart) { p.Jitter = 0.999 }),
		"no delay":     with(func(p *config.Restart) { p.Delay, p.Jitter = 0, 0.5 }),
		"huge factor":  with(func(p *config.Restart) { p.Factor, p.Jitter = math.MaxFloat64, 0.1 }),
		"equal delays": with(func(p *config.Restart) { p.MaxDelay, p.Jitter = p.Delay, 0.1 }),
	}
	for name, policy := range policies {
		t.Run(name, func(t *testing.T) {
			for n := 1; n <= 5000; n++ {
				for _, random := range []float64{0, 0.25, 0.5, 0.999999} {
					low := time.Duration(float64(policy.Delay) * (1 - policy.Jitter))
					high := time.Duration(float64(policy.MaxDelay) * (1 + policy.Jitter))
					if got := delay(policy, n, random); got < low || got > high {
						t.Fatalf("restart %d with chance %v: %v, want it within %v and %v", n, random, got, low, high)
					}
				}
			}
		})
	}
}

func TestJitterSpreadsBothWays(t *testing.T) {
	policy := with(func(p *config.Restart) { p.Jitter = 0.5 })
	for random, want := range map[float64]time.Duration{
		0:    500 * time.Millisecond,
		0.5:  time.Second,
		0.75: 1250 * time.Millisecond,
	} {
		if got := delay(policy, 1, random); got != want {
			t.Errorf("chance %v: %v, want %v", random, got, want)
		}
	}
}

func TestHistoryKeepsOnlyWhatALimitNeeds(t *testing.T) {
	var unlimited, limited history
	now := time.Unix(1e9, 0)
	policy := with(func(p *config.Restart) { p.Limit, p.Within = 3, 10*time.Second })
	for range 1000 {
		now = now.Add(3 * time.Second)
		unlimited.next(steady, now, 0, 0)
		limited.next(policy, now, 0, 0)
	}
	if len(unlimited.failures) != 0 || len(limited.failures) > policy.Limit+1 {
		t.Errorf("kept %d failures without a limit and %d with one of %d",
			len(unlimited.failures), len(limited.failures), policy.Limit)
	}
}

func TestWhichEndsAreRestarted(t *testing.T) {
	const bySignal = -1
	tests := []struct {
		policy string
		status int
		want   bool
	}{
		{config.RestartAlways, 0, true},
		{config.RestartAlways, 1, true},
		{config.RestartAlways, bySignal, true},
		{config.RestartAlways, exitConfig, false},
		{config.RestartOnFailure, 0, false},
		{config.RestartOnFailure, 1, true},
		{config.RestartOnFailure, bySignal, true},
		{config.RestartOnFailure, exitConfig, false},
		{config.RestartNever, 0, false},
		{config.RestartNever, 1, false},
		{config.RestartNever, bySignal, false},
		{config.RestartNever, exitConfig, false},
	}
	for _, test := range tests {
		if got := applies(test.policy, test.status); got != test.want {
			t.Errorf("policy %s, exit status %d: restarted is %v, want %v", test.policy, test.status, got, test.want)
		}
	}
}
