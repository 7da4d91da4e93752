package release

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"testing/synctest"
	"time"
)

// forced is how many collections were asked for. Only a Releaser asks here.
func forced() uint32 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.NumForcedGC
}

func TestMemoryIsReleasedOnceManyHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Releaser
		before := forced()
		step := func(name string, ended int, wait time.Duration, want bool) {
			t.Helper()
			for range ended {
				r.Ended()
			}
			time.Sleep(wait)
			synctest.Wait()
			after := forced()
			if released := after != before; released != want {
				t.Errorf("%s: released is %v, want %v", name, released, want)
			}
			before = after
		}
		step("few have ended", many-1, time.Hour, false)
		step("another one, just now", 1, quiet-1, false)
		step("and still others", 10, quiet-1, false)
		step("none any more", 0, 1, true)
		step("again, too soon", many, pause-1, false)
		step("again, after the pause", 0, 1, true)
		step("nothing since", 0, time.Hour, false)
	})
}

// created is how many goroutines there have been.
func created() uint64 {
	sample := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func TestDescriptorsAreMadeTogetherForMoreSessionsThanEverBefore(t *testing.T) {
	runtime.GC() // the first one makes goroutines of its own
	synctest.Test(t, func(t *testing.T) {
		var r Releaser
		step := func(name string, begin, end int, want uint64) {
			t.Helper()
			before := created()
			for range begin {
				r.Began()
			}
			synctest.Wait() // they have ended
			if got := created() - before; got != want {
				t.Errorf("%s: %d goroutines, want %d", name, got, want)
			}
			for range end {
				r.Ended()
			}
		}
		step("few", many, 0, 0)
		step("one more", 1, 0, batch*each)
		step("up to what is prepared", batch, many, 0)
		step("as many again", many, 0, 0)
		step("one more than ever", 1, many+batch+2, batch*each)
	})
}
