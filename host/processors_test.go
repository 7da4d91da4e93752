package main

import (
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/supervise"
)

func TestAllProcessorsAreUsedOnlyWhileServicesStartOrStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sets := make(chan bool, 100)
		p := newProcessors()
		p.set = func(all bool) { sets <- all }
		enter := func(name string, state supervise.State) {
			ref := config.Ref{Kind: config.KindMCP, Name: name}
			p.watch(supervise.Change{Status: supervise.Status{Service: ref, State: state}})
		}
		expect := func(when string, wait time.Duration, want ...bool) {
			t.Helper()
			time.Sleep(wait)
			synctest.Wait()
			var set []bool
			for len(sets) > 0 {
				set = append(set, <-sets)
			}
			if !slices.Equal(set, want) {
				t.Errorf("%s: %v, want %v", when, set, want)
			}
		}
		enter("a", supervise.Starting)
		enter("b", supervise.Starting)
		enter("a", supervise.Ready)
		expect("while one starts, as at the begin", time.Hour)
		enter("b", supervise.Ready)
		expect("just after", calmAfter/2)
		enter("a", supervise.Stopping)
		enter("a", supervise.Stopped)
		expect("soon after another transition", calmAfter-1)
		expect("when all is calm", 1, false)
		enter("b", supervise.Unhealthy)
		expect("as calm as before", time.Hour)
		enter("b", supervise.Stopping)
		expect("while one stops", 0, true)
		enter("b", supervise.Backoff)
		expect("while one waits for its next try", calmAfter, false)
	})
}

func TestPartOfTheProcessorsIsUsed(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	runtime.SetDefaultGOMAXPROCS()
	all := runtime.GOMAXPROCS(0)
	p := newProcessors()
	p.set(false)
	if got, want := runtime.GOMAXPROCS(0), max(1, all/calmShare); got != want {
		t.Errorf("calm: %d of %d processors, want %d", got, all, want)
	}
	p.set(true)
	if got := runtime.GOMAXPROCS(0); got != all {
		t.Errorf("after that: %d processors, want %d", got, all)
	}
}
