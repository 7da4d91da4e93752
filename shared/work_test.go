package shared

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestDrainOfNothingReturnsAtOnce(t *testing.T) {
	var work Work
	if err := work.Drain(t.Context()); err != nil {
		t.Errorf("error %v", err)
	}
	if !work.Draining() {
		t.Error("it does not say that it is draining")
	}
}

func TestDrainWaitsForWorkAndRefusesNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var work Work
		end, ok := work.Begin()
		if !ok || work.Idle() || work.Draining() {
			t.Fatalf("begun %v, idle %v, draining %v", ok, work.Idle(), work.Draining())
		}
		var drained atomic.Int32
		for range 3 { // Drain may be called by more than one
			go func() {
				if err := work.Drain(t.Context()); err != nil {
					t.Errorf("error %v", err)
				}
				drained.Add(1)
			}()
		}
		synctest.Wait()
		if n := drained.Load(); n != 0 {
			t.Errorf("%d drains returned while work was in flight", n)
		}
		if _, ok := work.Begin(); ok {
			t.Error("new work was not refused")
		}
		end()
		end() // once too often
		synctest.Wait()
		if n := drained.Load(); n != 3 || !work.Idle() {
			t.Errorf("%d of 3 drains returned, idle %v", n, work.Idle())
		}
		if err := work.Drain(t.Context()); err != nil {
			t.Errorf("a later drain: %v", err)
		}
	})
}

func TestDrainEndsWithItsContextAndWorkStaysRefused(t *testing.T) {
	var work Work
	end, _ := work.Begin()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := work.Drain(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want canceled", err)
	}
	if _, ok := work.Begin(); ok {
		t.Error("new work was not refused")
	}
	end()
	if err := work.Drain(t.Context()); err != nil {
		t.Errorf("a later drain: %v", err)
	}
}

// After a drain nothing is in flight, whatever began and ended beside it.
func TestDrainAmongManyGoroutines(t *testing.T) {
	for range 20 {
		var work Work
		var inFlight atomic.Int64
		var working sync.WaitGroup
		some := make(chan struct{})
		once := sync.OnceFunc(func() { close(some) })
		for range 50 {
			working.Go(func() {
				for {
					end, ok := work.Begin()
					if !ok {
						return
					}
					inFlight.Add(1)
					once()
					inFlight.Add(-1)
					end()
				}
			})
		}
		<-some
		var draining sync.WaitGroup
		for range 5 {
			draining.Go(func() {
				if err := work.Drain(t.Context()); err != nil {
					t.Errorf("error %v", err)
				}
				if n := inFlight.Load(); n != 0 {
					t.Errorf("%d in flight after the drain", n)
				}
			})
		}
		draining.Wait()
		working.Wait()
	}
}
