package release

import (
	"runtime"
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
