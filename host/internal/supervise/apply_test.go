package supervise

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plughost/plughost/host/internal/config"
)

// changed is a service that was changed in attributes that need another process,
// by its command, or that do not, by its grace.
func changed(s config.Service, change func(*config.Service)) config.Service {
	change(&s)
	return s
}

func running(words ...string) func(*config.Service) {
	return func(s *config.Service) { s.Command = words }
}

func grace(d time.Duration) func(*config.Service) {
	return func(s *config.Service) { s.StopGrace = d }
}

func onPort(port int) func(*config.Service) {
	return func(s *config.Service) { s.Port = port }
}

// apply applies services and returns what was done, as "restart a (command)".
func (w *world) apply(services ...config.Service) *Applied {
	w.t.Helper()
	planned, err := w.Plan(w.t.Context(), Update{Services: services, StartLimit: w.limit})
	if err != nil {
		w.t.Fatal(err)
	}
	applied, err := w.Apply(w.t.Context(), Update{Services: services, StartLimit: w.limit})
	if err != nil {
		w.t.Fatal(err)
	}
	if !reflect.DeepEqual(planned, applied.Steps) {
		w.t.Errorf("planned was %v, done is %v", planned, applied.Steps)
	}
	return applied
}

func (w *world) wantSteps(applied *Applied, want ...string) {
	w.t.Helper()
	var got []string
	for _, step := range applied.Steps {
		text := string(step.Action) + " " + step.Service.Name
		if len(step.Because) > 0 {
			text += " (" + strings.Join(step.Because, ", ") + ")"
		}
		got = append(got, text)
	}
	if !reflect.DeepEqual(got, want) {
		w.t.Errorf("the steps are %q, want %q", got, want)
	}
}

// wait waits for the end of all steps, which must go well.
func (w *world) wait(applied *Applied) {
	w.t.Helper()
	if err := applied.Wait(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	for _, step := range applied.Steps {
		if step.Error != "" {
			w.t.Errorf("%s %s: %s", step.Action, step.Service, step.Error)
		}
	}
}

// gone checks that there is no status of a service.
func (w *world) gone(name string) {
	w.t.Helper()
	synctest.Wait()
	for _, s := range w.Statuses() {
		if s.Service == ref(name) {
			w.t.Errorf("%s is still there, %s", name, s.State)
		}
	}
}

func TestAnUpdateTouchesOnlyWhatChanged(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("same"), svc("inplace"), svc("other"), svc("old"))
		w.startAll()
		same, inplace, other := w.instance("same"), w.instance("inplace"), w.instance("other")
		w.events()
		applied := w.apply(svc("new", "other"), changed(svc("other"), running("x")), changed(svc("inplace"), grace(0)), svc("same"))
		w.wantSteps(applied, "start new", "restart other (command)", "update inplace (stop.grace)", "keep same", "stop old")
		if pid := applied.Steps[1].PID; pid != other.PID() {
			t.Errorf("the step names pid %d, want %d", pid, other.PID())
		}
		w.wait(applied)
		w.want("same", Ready, "inplace", Ready, "other", Ready, "new", Ready)
		w.gone("old")
		if w.instance("same") != same || w.instance("inplace") != inplace || w.instance("other") == other {
			t.Error("the wrong instances were replaced")
		}
		var order []string
		for _, s := range w.Statuses() {
			order = append(order, s.Service.Name)
		}
		if want := []string{"new", "other", "inplace", "same"}; !reflect.DeepEqual(order, want) {
			t.Errorf("the order is %v, want that of the configuration, %v", order, want)
		}
		w.wantSteps(w.apply(svc("new", "other"), changed(svc("other"), running("x")), changed(svc("inplace"), grace(0)), svc("same")),
			"keep new", "keep other", "keep inplace", "keep same")
	})
}

func TestAStaleInstanceIsReplaced(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"), svc("b"))
		w.startAll()
		update := Update{Services: []config.Service{svc("a"), svc("b")}, Stale: map[string]bool{w.instance("a").ID(): true}}
		applied, err := w.Apply(t.Context(), update)
		if err != nil {
			t.Fatal(err)
		}
		w.wantSteps(applied, "restart a (binary)", "keep b")
		w.wait(applied)
		// What was stale then is not any more.
		if applied, err = w.Apply(t.Context(), update); err != nil {
			t.Fatal(err)
		}
		w.wantSteps(applied, "keep a", "keep b")
	})
}

func TestAnUpdateInEveryState(t *testing.T) {
	hold := plan{stop: func(ctx context.Context, grace time.Duration) error { return pause(ctx, time.Minute) }}
	useless := exitStatus(t, exitConfig)
	tests := []struct {
		name  string
		reach func(w *world)
		// same, inPlace and process are the actions for a service that did not
		// change, one with another stop.grace, and one with another command.
		same, inPlace, process Action
		// after is the state after a change of the command, when all is done.
		after State
	}{
		{"ready", func(w *world) { w.startAll() }, Keep, ChangeInPlace, Replace, Ready},
		{"starting", func(w *world) { w.askStart("a"); synctest.Wait() }, Keep, ChangeInPlace, Replace, Ready},
		{"stopped by request", func(w *world) { w.startAll(); w.askStop("a"); synctest.Wait() }, Keep, ChangeInPlace, ChangeInPlace, Stopped},
		{"stopping by request", func(w *world) {
			w.startAll()
			w.let("a", hold)
			w.askStop("a")
			synctest.Wait()
		}, Keep, ChangeInPlace, ChangeInPlace, Stopped},
		{"stopping for a restart", func(w *world) {
			w.startAll()
			w.let("a", hold)
			w.askRestart("a")
			synctest.Wait()
		}, Keep, ChangeInPlace, Replace, Ready},
		{"in backoff", func(w *world) {
			w.let("a", plan{launch: fails})
			w.startAll()
			w.let("a", plan{})
		}, Keep, ChangeInPlace, StartIt, Ready},
		{"failed", func(w *world) {
			w.let("a", plan{launch: func(context.Context) (bool, error) { return false, useless }})
			w.askStart("a")
			w.want("a", Failed)
			w.let("a", plan{})
		}, Keep, StartIt, StartIt, Ready},
		{"never started", func(*world) {}, Keep, StartIt, StartIt, Ready},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, change := range []struct {
				conf config.Service
				want Action
			}{
				{svc("a"), test.same},
				{changed(svc("a"), grace(time.Second)), test.inPlace},
				{changed(svc("a"), running("x")), test.process},
			} {
				in(t, func(t *testing.T) {
					w := newWorld(t, svc("a"))
					test.reach(w)
					applied := w.apply(change.conf)
					if got := applied.Steps[0].Action; got != change.want {
						t.Errorf("a change to %v is a %s, want %s", change.conf, got, change.want)
					}
					w.wait(applied)
					if change.conf.Command != nil {
						time.Sleep(2 * time.Minute)
						w.want("a", test.after)
					}
				})
			}
		})
	}
}

func TestWhatWasStoppedByRequestStartsAsItWasChanged(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"))
		w.startAll()
		if err := w.Stop(t.Context(), ref("a")); err != nil {
			t.Fatal(err)
		}
		w.wait(w.apply(changed(svc("a"), onPort(7))))
		w.want("a", Stopped)
		if err := w.Start(t.Context(), ref("a")); err != nil {
			t.Fatal(err)
		}
		if port := w.instance("a").port; port != 7 {
			t.Errorf("it was started with port %d, want 7", port)
		}
		// It was started by request, so it is no longer held.
		w.wantSteps(w.apply(changed(svc("a"), onPort(8))), "restart a (port)")
	})
}

func TestPortsThatMoveAreFreeBeforeTheyAreTaken(t *testing.T) {
	in(t, func(t *testing.T) {
		slow := plan{stop: func(ctx context.Context, grace time.Duration) error { return pause(ctx, 5*time.Second) }}
		w := newWorld(t, changed(svc("a"), onPort(1)), changed(svc("b"), onPort(2)), changed(svc("old"), onPort(3)))
		w.startAll()
		w.let("a", slow)
		w.let("old", slow)
		w.events()
		// Both swap; what is new gets the port of what goes.
		applied := w.apply(changed(svc("new"), onPort(3)), changed(svc("a"), onPort(2)), changed(svc("b"), onPort(1)))
		w.wantSteps(applied, "start new", "restart a (port)", "restart b (port)", "stop old")
		time.Sleep(time.Second)
		w.want("b", Waiting, "new", Waiting)
		for name, want := range map[string]string{"b": "waits for port 1, which mcp.a has", "new": "waits for port 3, which mcp.old has"} {
			if cause := w.status(name).Cause; !strings.Contains(cause, want) {
				t.Errorf("%s says %q, want %q", name, cause, want)
			}
		}
		w.wait(applied) // the world sees who has which port
		w.want("a", Ready, "b", Ready, "new", Ready)
	})
}

func TestWhatIsDroppedEndsAgainstTheDependencies(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"), svc("b", "a"), svc("c", "b"), svc("d", "a"))
		w.startAll()
		w.events()
		applied := w.apply(svc("d"))
		w.wantSteps(applied, "update d (depends_on)", "stop a", "stop b", "stop c")
		if err := w.Start(t.Context(), ref("a")); err == nil || !strings.Contains(err.Error(), "no service mcp.a in the configuration") {
			t.Errorf("a start of what is to go: %v", err)
		}
		w.wait(applied)
		want := []string{"stop mcp.c", "gone mcp.c", "stop mcp.b", "gone mcp.b", "stop mcp.a", "gone mcp.a"}
		if got := w.events(); !reflect.DeepEqual(got, want) {
			t.Errorf("it went %q, want %q", got, want)
		}
		w.want("d", Ready)
		for _, change := range w.changes {
			if change.Service == ref("a") && change.State == Stopping && !strings.Contains(change.Cause, "configuration") {
				t.Errorf("a was stopped because %q", change.Cause)
			}
		}
		if states := w.states("a"); states[len(states)-1] != Removed {
			t.Errorf("the last that is told of it is %v, want that it is removed", states)
		}
	})
}

func TestWhatCannotBeEndedStays(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"), svc("b"))
		w.startAll()
		w.let("a", plan{stop: func(context.Context, time.Duration) error { return survivor(7) }})
		applied := w.apply(svc("b"))
		if err := applied.Wait(t.Context()); err != nil || !strings.Contains(applied.Steps[1].Error, "7") {
			t.Errorf("the stop that left pid 7 says %q, %v", applied.Steps[1].Error, err)
		}
		w.want("a", Failed)
		// As long as it is there, it can be stopped again, and not be started.
		if err := w.Restart(t.Context(), ref("a")); err == nil {
			t.Error("it was restarted")
		}
		w.wantSteps(w.apply(svc("b")), "keep b", "stop a")
		w.want("a", Failed)
		w.let("a", plan{})
		if err := w.Stop(t.Context(), ref("a")); err != nil {
			t.Error(err)
		}
		w.gone("a")
	})
}

func TestWhatComesBackBeforeItIsGone(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"), svc("b", "a"))
		w.startAll()
		slow := plan{stop: func(ctx context.Context, grace time.Duration) error { return pause(ctx, 5*time.Second) }}
		w.let("b", slow)
		a := w.instance("a")
		first := w.apply() // b is stopping, and a waits for its end
		second := w.apply(svc("a"), svc("b", "a"))
		w.wantSteps(second, "keep a", "start b")
		w.wait(second)
		w.want("a", Ready, "b", Ready)
		if w.instance("a") != a {
			t.Error("what was not touched yet was replaced")
		}
		if err := first.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if first.Steps[0].Error == "" {
			t.Error("the first update says that it stopped a, which runs")
		}
	})
}

func TestOnlySoManyStartAtOnce(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t)
		w.limit = 2
		var services []config.Service
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			services = append(services, svc(name))
		}
		services = append(services, svc("f", "a"))
		applied := w.apply(services...)
		w.want("a", Starting, "b", Starting, "c", Waiting, "f", Waiting)
		if cause := w.status("c").Cause; !strings.Contains(cause, "start_limit is 2") {
			t.Errorf("c says %q", cause)
		}
		if cause := w.status("f").Cause; !strings.Contains(cause, "mcp.a") {
			t.Errorf("f says %q", cause)
		}
		// One that waits for its turn can be stopped.
		if err := w.Stop(t.Context(), ref("d")); err != nil {
			t.Error(err)
		}
		if err := applied.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.want("a", Ready, "b", Ready, "c", Ready, "d", Stopped, "e", Ready, "f", Ready)
	})
}

func TestTurnsGoAround(t *testing.T) {
	in(t, func(t *testing.T) {
		// Two whose starts take long and fail must not keep the third waiting.
		w := newWorld(t)
		w.limit = 1
		fails := plan{launch: func(ctx context.Context) (bool, error) {
			return false, errors.Join(pause(ctx, time.Minute), errors.New("it failed"))
		}}
		w.let("a", fails)
		w.let("b", fails)
		w.apply(svc("a"), svc("b"), svc("c"))
		time.Sleep(2*time.Minute + 2*launchTime)
		w.want("c", Ready)
	})
}

func TestALargerStartLimitHolds(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t)
		w.limit = 1
		services := []config.Service{svc("a"), svc("b"), svc("c")}
		for _, name := range []string{"a", "b", "c"} {
			w.let(name, plan{launch: hang})
		}
		w.apply(services...)
		w.want("a", Starting, "b", Waiting, "c", Waiting)
		w.limit = 0
		w.apply(services...)
		w.want("a", Starting, "b", Starting, "c", Starting)
	})
}

// The result of a check may be on its way when health is no longer checked.
func TestALateHealthCheckIsNoNews(t *testing.T) {
	in(t, func(t *testing.T) {
		checked := svc("a")
		checked.Health = config.Health{Interval: time.Second, Timeout: time.Second, Failures: 3}
		w := newWorld(t, checked)
		w.let("a", plan{health: func(context.Context) error { return errors.New("unwell") }})
		w.StartAll()
		time.Sleep(launchTime)
		w.want("a", Ready)
		applied, err := w.Apply(t.Context(), Update{
			Services: []config.Service{svc("a")},
			Taken:    func() { time.Sleep(checked.Health.Interval) }, // a check fails while the loop is busy
		})
		if err != nil {
			t.Fatal(err)
		}
		w.wait(applied)
		w.want("a", Ready)
	})
}

func TestHealthIsCheckedAsItWasChanged(t *testing.T) {
	in(t, func(t *testing.T) {
		sick := plan{health: func(context.Context) error { return errors.New("sick") }}
		checked := func(interval time.Duration) config.Service {
			s := svc("a")
			s.Health = config.Health{Interval: interval, Timeout: time.Second, Failures: 100}
			return s
		}
		w := newWorld(t, checked(time.Hour))
		w.startAll()
		a := w.instance("a")
		w.let("a", sick)
		w.wantSteps(w.apply(checked(time.Second)), "update a (health.interval)")
		time.Sleep(90 * time.Second)
		w.want("a", Unhealthy)
		// Without checks nothing would ever make it ready again.
		w.apply(checked(0))
		w.want("a", Ready)
		time.Sleep(time.Hour)
		w.want("a", Ready)
		if w.instance("a") != a {
			t.Error("it was replaced")
		}
	})
}

func TestADependencyThatIsGivenUpIsNotWaitedFor(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"), svc("b", "a"))
		w.let("a", plan{launch: fails})
		w.startAll()
		w.want("b", Waiting)
		w.wantSteps(w.apply(svc("a"), svc("b")), "keep a", "update b (depends_on)")
		time.Sleep(10 * launchTime)
		w.want("b", Ready)
	})
}

func TestNoUpdateOnceTheHostEnds(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"))
		w.startAll()
		if err := w.StopAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		update := Update{Services: []config.Service{svc("b")}, Taken: func() { t.Error("the update was taken") }}
		if _, err := w.Apply(t.Context(), update); !errors.Is(err, ErrShuttingDown) {
			t.Errorf("Apply: %v", err)
		}
		if _, err := w.Plan(t.Context(), update); !errors.Is(err, ErrShuttingDown) {
			t.Errorf("Plan: %v", err)
		}
		w.want("a", Stopped)
	})
}

func TestAnUpdateIsTakenBeforeAnythingIsDone(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"))
		w.startAll()
		w.events()
		w.states("a")
		taken := false
		applied, err := w.Apply(t.Context(), Update{Services: []config.Service{svc("b")}, Taken: func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if taken = true; len(w.log)+len(w.changes) > 0 {
				t.Errorf("before it was taken there was %v %v", w.log, w.changes)
			}
		}})
		if err != nil || !taken {
			t.Fatalf("it was taken: %v, %v", taken, err)
		}
		w.wait(applied)
	})
}

func TestNewServicesMayBeListedBeforeTheirDependencies(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t)
		w.wait(w.apply(svc("c", "b"), svc("b", "a"), svc("a")))
		w.want("a", Ready, "b", Ready, "c", Ready)
	})
}

func TestAChangeAfterACrashIsNoRetry(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"))
		w.startAll()
		w.let("a", plan{stop: func(ctx context.Context, grace time.Duration) error { return pause(ctx, 5*time.Second) }})
		w.crash("a")
		w.want("a", Stopping)
		w.states("a")
		applied := w.apply(changed(svc("a"), running("x")))
		w.wantSteps(applied, "restart a (command)")
		w.wait(applied)
		if got, want := w.states("a"), []State{Starting, Ready}; !reflect.DeepEqual(got, want) {
			t.Errorf("it went through %v, want %v", got, want)
		}
	})
}
