package supervise

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/plughost/plughost/host/internal/config"
)

// What has a process already waits for nothing, and once that is gone it waits
// like any other.
func TestServicesThatRunAlreadyWaitForNothing(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"), svc("b", "a"), svc("c", "b"))
		w.let("a", plan{launch: fails})
		w.StartAll(ref("b"))
		w.want("b", Starting, "c", Waiting)
		time.Sleep(launchTime)
		w.want("a", Backoff, "b", Ready, "c", Starting)
		w.crash("b")
		time.Sleep(time.Second)
		w.want("b", Waiting)
	})
}

func TestServicesThatAreLeftRunOn(t *testing.T) {
	in(t, func(t *testing.T) {
		// The kept ones are between those that are stopped, and one of them is
		// not up.
		w := newWorld(t, svc("base"), svc("kept", "base"), svc("top", "kept"), svc("kept-in-backoff"), svc("kept-unhealthy"))
		w.startAll()
		w.crash("kept-in-backoff")
		w.want("kept-in-backoff", Backoff)
		w.events()
		left := w.Leave(func(s config.Service) bool { return len(s.Name) >= 4 && s.Name[:4] == "kept" })
		if !slices.Equal(left, []config.Ref{ref("kept"), ref("kept-unhealthy")}) {
			t.Errorf("left: %v", left)
		}
		if err := w.StopAll(t.Context()); err != nil {
			t.Error(err)
		}
		// With kept left neither of the two needs the other, so they end side by side.
		events := w.events()
		slices.Sort(events)
		if !slices.Equal(events, []string{"gone mcp.base", "gone mcp.top", "stop mcp.base", "stop mcp.top"}) {
			t.Errorf("what happened: %v", events)
		}
		w.want("kept", Stopped, "kept-unhealthy", Stopped)
		for _, name := range left {
			kept := w.instance(name.Name)
			select {
			case <-kept.Exited():
				t.Errorf("%s has ended", name)
			default:
			}
			// Its end is nobody's business here any more.
			if _, err := kept.Stop(t.Context(), 0); err != nil {
				t.Error(err)
			}
		}
		if err := w.Start(t.Context(), ref("kept")); !errors.Is(err, ErrShuttingDown) {
			t.Errorf("a start: %v", err)
		}
		time.Sleep(time.Hour)
		w.want("kept", Stopped)
	})
}
