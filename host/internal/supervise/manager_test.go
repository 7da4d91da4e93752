package supervise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/probes"
)

func wantEvents(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("it went\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func wantStates(t *testing.T, got []State, want ...State) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("it went through %v, want %v", got, want)
	}
}

func wantError(t *testing.T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("the error is %v, want one with %q", err, part)
	}
}

// hang is a start or a stop that never ends by itself.
func hang(ctx context.Context) (bool, error) {
	<-ctx.Done()
	return false, ctx.Err()
}

func fails(context.Context) (bool, error) { return false, errors.New("no such file") }

func TestServicesStartAfterTheirDependenciesAndSideBySide(t *testing.T) {
	in(t, func(t *testing.T) {
		// c, in front, waits for b, which waits for a; d waits for nothing.
		w := newWorld(t, svc("c", "b"), svc("b", "a"), svc("d"), svc("a"))
		w.StartAll()
		w.want("c", Waiting, "b", Waiting, "d", Starting, "a", Starting)
		if cause := w.status("b").Cause; cause != "waits for mcp.a, which is starting" {
			t.Errorf("b %s", cause)
		}
		time.Sleep(launchTime)
		w.want("c", Waiting, "b", Starting, "d", Ready, "a", Ready)
		time.Sleep(launchTime)
		w.want("c", Starting, "b", Ready)
		time.Sleep(launchTime)
		w.want("c", Ready)
		wantStates(t, w.states("c"), Waiting, Starting, Ready)
	})
}

func TestADependantOfTwoWaitsForBoth(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"), svc("b"), svc("both", "a", "b"))
		w.let("b", plan{launch: func(ctx context.Context) (bool, error) { return true, pause(ctx, time.Minute) }})
		w.startAll()
		w.want("a", Ready, "b", Starting, "both", Waiting)
		if cause := w.status("both").Cause; cause != "waits for mcp.b, which is starting" {
			t.Errorf("both %s", cause)
		}
		time.Sleep(time.Minute)
		w.want("b", Ready, "both", Ready)
		wantStates(t, w.states("both"), Waiting, Starting, Ready)
	})
}

func TestACrashIsCleanedUpAndRestartedAfterTheDelay(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"), svc("dependant", "a"))
		w.startAll()
		w.states("a")
		w.let("a", plan{stop: func(ctx context.Context, _ time.Duration) error { return pause(ctx, time.Second) }})
		first := w.instance("a")

		w.crash("a")
		w.want("a", Stopping)
		time.Sleep(time.Second)
		w.want("a", Backoff)
		s := w.status("a")
		if left := time.Until(s.NextTry); left != steady.Delay || s.Restarts != 0 || s.PID != 0 ||
			s.LastError != "service mcp.a ended: exit status 1" || s.Cause != s.LastError {
			t.Errorf("in backoff: %+v, next try in %v", s, left)
		}
		time.Sleep(steady.Delay)
		w.want("a", Starting)
		time.Sleep(launchTime)
		w.want("a", Ready, "dependant", Ready)
		s = w.status("a")
		if s.Restarts != 1 || s.Instance == first.ID() || s.Instance != w.instance("a").ID() ||
			s.LastError == "" || !s.NextTry.IsZero() {
			t.Errorf("after the restart: %+v", s)
		}
		wantStates(t, w.states("a"), Stopping, Backoff, Starting, Ready)
		if n := w.status("dependant").Restarts; n != 0 {
			t.Errorf("the dependant was restarted %d times, want 0", n)
		}
	})
}

func TestACrashOfADependencyWhileItsDependantIsInBackoff(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"), svc("b", "a"))
		w.startAll()
		w.states("b")
		w.crash("b")
		w.want("b", Backoff)
		w.let("a", plan{launch: hang})
		w.crash("a")
		time.Sleep(2 * steady.Delay)
		w.want("a", Starting, "b", Waiting)
		if err := w.Stop(t.Context(), ref("a")); err != nil {
			t.Fatal(err)
		}
		w.let("a", plan{})
		if err := w.Start(t.Context(), ref("a")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(launchTime)
		w.want("b", Ready)
		wantStates(t, w.states("b"), Stopping, Backoff, Waiting, Starting, Ready)
	})
}

func TestHealth(t *testing.T) {
	checked := func(name string) config.Service {
		s := svc(name)
		s.Health = config.Health{Interval: 10 * time.Second, Timeout: 2 * time.Second, Failures: 3}
		return s
	}
	// Past the instant of a check, so that it has happened.
	const moment = time.Millisecond
	sick := plan{health: func(context.Context) error { return errors.New("out of ideas") }}
	frozen := plan{health: func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}}
	t.Run("a service that recovers keeps its instance", func(t *testing.T) {
		in(t, func(t *testing.T) {
			w := newWorld(t, checked("a"))
			w.StartAll()
			time.Sleep(launchTime)
			before := w.status("a").Instance
			w.let("a", sick)
			time.Sleep(25 * time.Second)
			w.want("a", Unhealthy)
			if s := w.status("a"); s.Cause != "a health check failed: out of ideas" {
				t.Errorf("the cause is %q", s.Cause)
			}
			w.let("a", plan{})
			time.Sleep(10*time.Second + moment)
			w.want("a", Ready)
			// The count begins anew.
			w.let("a", sick)
			time.Sleep(20 * time.Second)
			w.let("a", plan{})
			time.Sleep(time.Hour)
			w.want("a", Ready)
			if after := w.status("a"); after.Instance != before || after.Restarts != 0 {
				t.Errorf("the instance is %s after %d restarts, want %s", after.Instance, after.Restarts, before)
			}
			if n := w.status("a").HealthFailures; n != 4 {
				t.Errorf("%d health checks failed, want 2 and 2", n)
			}
			wantStates(t, w.states("a"), Starting, Ready, Unhealthy, Ready, Unhealthy, Ready)
		})
	})
	t.Run("a service that does not is replaced", func(t *testing.T) {
		in(t, func(t *testing.T) {
			w := newWorld(t, checked("a"))
			w.StartAll()
			time.Sleep(launchTime)
			before := w.status("a").Instance
			w.let("a", frozen)
			time.Sleep(32*time.Second + moment)
			w.let("a", plan{})
			w.want("a", Backoff)
			if s := w.status("a"); s.LastError != "service mcp.a is unhealthy: 3 health checks in a row failed, the last: no answer within 2s" {
				t.Errorf("the last error is %q", s.LastError)
			}
			time.Sleep(time.Minute)
			w.want("a", Ready)
			if w.status("a").Instance == before {
				t.Error("the instance is still the same")
			}
			wantStates(t, w.states("a"), Starting, Ready, Unhealthy, Stopping, Backoff, Starting, Ready)
		})
	})
	t.Run("one failure may be enough", func(t *testing.T) {
		in(t, func(t *testing.T) {
			s := checked("a")
			s.Health.Failures = 1
			w := newWorld(t, s)
			w.StartAll()
			time.Sleep(launchTime)
			w.let("a", sick)
			time.Sleep(10*time.Second + moment)
			w.let("a", plan{})
			time.Sleep(time.Minute)
			wantStates(t, w.states("a"), Starting, Ready, Stopping, Backoff, Starting, Ready)
		})
	})
	t.Run("an unhealthy service can be stopped and restarted, and can end", func(t *testing.T) {
		for name, end := range map[string]func(*world){
			"stop":    func(w *world) { _ = w.Stop(context.Background(), ref("a")) },
			"restart": func(w *world) { _ = w.Restart(context.Background(), ref("a")) },
			"end":     func(w *world) { w.crash("a") },
		} {
			in(t, func(t *testing.T) {
				w := newWorld(t, checked("a"))
				w.StartAll()
				time.Sleep(launchTime)
				w.let("a", sick)
				time.Sleep(10*time.Second + moment)
				w.want("a", Unhealthy)
				w.let("a", plan{})
				end(w)
				time.Sleep(time.Minute)
				if name == "stop" {
					w.want("a", Stopped)
				} else {
					w.want("a", Ready)
				}
			})
		}
	})
	t.Run("a dependant waits for health", func(t *testing.T) {
		in(t, func(t *testing.T) {
			w := newWorld(t, checked("a"), svc("b", "a"))
			w.StartAll()
			time.Sleep(2 * launchTime)
			w.let("a", sick)
			time.Sleep(10*time.Second + moment)
			w.want("a", Unhealthy, "b", Ready)
			w.crash("b")
			time.Sleep(2 * steady.Delay)
			w.want("b", Waiting)
			w.let("a", plan{})
			time.Sleep(10*time.Second + launchTime)
			w.want("a", Ready, "b", Ready)
		})
	})
}

func TestTheLimitFailsAServiceAndAStartClearsIt(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, withPolicy(svc("a"), func(p *config.Restart) { p.Limit = 2 }))
		w.let("a", plan{launch: fails})
		begun := time.Now()
		w.StartAll()
		time.Sleep(time.Hour)
		w.want("a", Failed)
		wantStates(t, w.states("a"), Starting, Backoff, Starting, Backoff, Starting, Failed)
		s := w.status("a")
		if took := s.Since.Sub(begun); took != 3*time.Second {
			t.Errorf("it failed after %v, want the delays of 1s and 2s", took)
		}
		if s.LastError != "gave up after 3 failures within 10m0s, the last: cannot start service mcp.a: no such file" {
			t.Errorf("the error is %q", s.LastError)
		}

		// A request starts it at once, with a new count.
		wantError(t, w.Start(t.Context(), ref("a")), "no such file; the next try is in 1s")
		w.want("a", Backoff)
		w.let("a", plan{})
		time.Sleep(steady.Delay + launchTime)
		w.want("a", Ready)
		if s := w.status("a"); s.LastError == "" {
			t.Error("the last error is forgotten before a start was asked")
		}
		if err := w.Start(t.Context(), ref("a")); err != nil {
			t.Fatal(err)
		}
		if s := w.status("a"); s.LastError != "" {
			t.Errorf("the last error is %q after a start that was asked", s.LastError)
		}
	})
}

func TestEndsOfAReadyService(t *testing.T) {
	one, configured := exitStatus(t, 1), exitStatus(t, exitConfig)
	tests := []struct {
		name   string
		policy string
		exit   error
		want   State
	}{
		{"always restarts after a failure", config.RestartAlways, one, Backoff},
		{"always restarts after success", config.RestartAlways, nil, Backoff},
		{"always leaves EX_CONFIG", config.RestartAlways, configured, Failed},
		{"on-failure restarts after a failure", config.RestartOnFailure, one, Backoff},
		{"on-failure restarts after a signal", config.RestartOnFailure, errors.New("signal: killed"), Backoff},
		{"on-failure leaves success", config.RestartOnFailure, nil, Stopped},
		{"never leaves a failure", config.RestartNever, one, Failed},
		{"never leaves success", config.RestartNever, nil, Stopped},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in(t, func(t *testing.T) {
				w := newWorld(t, withPolicy(svc("a"), func(p *config.Restart) { p.Policy = test.policy }))
				w.startAll()
				w.instance("a").exit(test.exit)
				w.want("a", test.want)
				if s := w.status("a"); (s.LastError == "") != (test.want == Stopped) {
					t.Errorf("the last error is %q", s.LastError)
				}
				if err := w.Start(t.Context(), ref("a")); err != nil {
					t.Errorf("a start after it: %v", err)
				}
				w.want("a", Ready)
			})
		})
	}
}

// permanent is the error of a launch that fails again whenever it is tried.
type permanent struct{}

func (permanent) Error() string   { return "the checksum does not match" }
func (permanent) Permanent() bool { return true }

func TestAStartThatCannotEverSucceedIsNotTriedAgain(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"))
		w.let("a", plan{launch: func(context.Context) (bool, error) {
			return false, fmt.Errorf("cannot start: %w", permanent{})
		}})
		wantError(t, w.Start(t.Context(), ref("a")), "does not match")
		w.want("a", Failed)
	})
}

func TestAStartThatEndsWithEXCONFIGIsNotTriedAgain(t *testing.T) {
	configured := exitStatus(t, exitConfig)
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"))
		w.let("a", plan{launch: func(context.Context) (bool, error) {
			return false, fmt.Errorf("it ended before it was ready: %w", configured)
		}})
		wantError(t, w.Start(t.Context(), ref("a")), "exit status 78")
		w.want("a", Failed)
	})
}

func TestAFailedStartIsAFailureUnderEveryPolicy(t *testing.T) {
	for policy, want := range map[string]State{
		config.RestartAlways:    Backoff,
		config.RestartOnFailure: Backoff,
		config.RestartNever:     Failed,
	} {
		t.Run(policy, func(t *testing.T) {
			in(t, func(t *testing.T) {
				w := newWorld(t, withPolicy(svc("a"), func(p *config.Restart) { p.Policy = policy }))
				w.let("a", plan{launch: fails})
				wantError(t, w.Start(t.Context(), ref("a")), "cannot start service mcp.a: no such file")
				w.want("a", want)
			})
		})
	}
}

// states are ways into every state but stopped, of a service a that depends on
// b.
var intoStates = []struct {
	state State
	bring func(w *world)
}{
	{Waiting, func(w *world) {
		w.let("b", plan{launch: hang})
		w.StartAll()
	}},
	{Starting, func(w *world) {
		w.let("a", plan{launch: hang})
		w.startAll()
	}},
	{Ready, func(w *world) { w.startAll() }},
	{Stopping, func(w *world) {
		w.startAll()
		w.let("a", plan{stop: func(ctx context.Context, _ time.Duration) error { return pause(ctx, time.Second) }})
		w.crash("a")
	}},
	{Backoff, func(w *world) {
		w.startAll()
		w.crash("a")
	}},
	{Failed, func(w *world) {
		w.let("a", plan{launch: func(context.Context) (bool, error) { return false, permanent{} }})
		w.startAll()
		w.let("a", plan{})
	}},
	{Stopped, func(*world) {}},
}

func TestStopInEveryState(t *testing.T) {
	for _, test := range intoStates {
		t.Run(string(test.state), func(t *testing.T) {
			in(t, func(t *testing.T) {
				w := newWorld(t, svc("a", "b"), svc("b"))
				test.bring(w)
				w.want("a", test.state)
				w.states("a")
				stop, again := w.askStop("a"), w.askStop("a")
				time.Sleep(time.Second)
				if err := errors.Join(stop.result(), again.result()); err != nil {
					t.Error(err)
				}
				w.want("a", Stopped)
				changes := w.states("a")
				if test.state == Stopped && len(changes) > 0 {
					t.Errorf("a stopped service was stopped: %v", changes)
				}
				time.Sleep(time.Hour)
				w.want("a", Stopped)
			})
		})
	}
}

func TestStartInEveryState(t *testing.T) {
	for _, test := range intoStates {
		t.Run(string(test.state), func(t *testing.T) {
			in(t, func(t *testing.T) {
				w := newWorld(t, svc("a", "b"), svc("b"))
				test.bring(w)
				if test.state == Stopped {
					if err := w.Start(t.Context(), ref("b")); err != nil {
						t.Fatal(err)
					}
				}
				w.want("a", test.state)
				start, again := w.askStart("a"), w.askStart("a")
				switch test.state {
				case Waiting:
					if err := w.Stop(t.Context(), ref("b")); err != nil {
						t.Fatal(err)
					}
					wantError(t, start.result(), "service mcp.a waits for mcp.b, which is stopped")
					_ = again.result()
					w.let("b", plan{})
					if err := w.Start(t.Context(), ref("b")); err != nil {
						t.Fatal(err)
					}
				case Starting:
					if !start.pending() {
						t.Error("it was answered before it was ready")
					}
					if err := w.Stop(t.Context(), ref("a")); err != nil {
						t.Fatal(err)
					}
					wantError(t, start.result(), "service mcp.a was stopped by request")
					_ = again.result()
					w.let("a", plan{})
					w.askStart("a")
				case Stopping:
					// No delay and no answer from the crash: it was asked.
					time.Sleep(time.Second + launchTime)
					fallthrough
				default:
					time.Sleep(launchTime)
					if err := errors.Join(start.result(), again.result()); err != nil {
						t.Error(err)
					}
				}
				time.Sleep(launchTime)
				w.want("a", Ready)
			})
		})
	}
}

func TestRestartReplacesTheInstance(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"), svc("dependant", "a"))
		w.startAll()
		first := w.instance("a").ID()
		w.events()
		w.states("a")
		if err := w.Restart(t.Context(), ref("a")); err != nil {
			t.Fatal(err)
		}
		wantEvents(t, w.events(), "stop mcp.a", "gone mcp.a", "start mcp.a", "ready mcp.a")
		wantStates(t, w.states("a"), Stopping, Starting, Ready)
		if id := w.status("a").Instance; id == first {
			t.Error("it is the instance before")
		}
		w.want("dependant", Ready)
	})
}

func TestRestartsAtOnceGiveOneInstance(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"))
		w.startAll()
		w.let("a", plan{stop: func(ctx context.Context, _ time.Duration) error { return pause(ctx, time.Second) }})
		w.events()
		one, two := w.askRestart("a"), w.askRestart("a")
		time.Sleep(time.Second + launchTime/2)
		three := w.askRestart("a") // while it starts
		if !one.pending() || !two.pending() || !three.pending() {
			t.Error("a restart was answered before the new instance is ready")
		}
		time.Sleep(launchTime)
		if err := errors.Join(one.result(), two.result(), three.result()); err != nil {
			t.Error(err)
		}
		wantEvents(t, w.events(), "stop mcp.a", "gone mcp.a", "start mcp.a", "ready mcp.a")
	})
}

func TestRestartOfAServiceThatIsNotReadyStartsIt(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"))
		if err := w.Restart(t.Context(), ref("a")); err != nil {
			t.Error(err)
		}
		w.crash("a")
		w.want("a", Backoff)
		if err := w.Restart(t.Context(), ref("a")); err != nil {
			t.Error(err)
		}
		w.want("a", Ready)
		if n := w.status("a").Restarts; n != 1 {
			t.Errorf("it was restarted %d times, want 1", n)
		}
	})
}

func TestAStopAbortsAStart(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"))
		w.let("a", plan{launch: hang})
		start := w.askStart("a")
		w.want("a", Starting)
		if err := w.Stop(t.Context(), ref("a")); err != nil {
			t.Error(err)
		}
		wantError(t, start.result(), "was stopped by request")
		wantStates(t, w.states("a"), Starting, Stopping, Stopped)
	})
}

func TestAnAbortThatComesTooLateEndsTheInstance(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"))
		w.let("a", plan{launch: func(ctx context.Context) (bool, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			return true, nil
		}})
		start := w.askStart("a")
		stop := w.askStop("a")
		if !stop.pending() {
			t.Fatal("the stop was answered while the launch goes on")
		}
		time.Sleep(time.Second)
		if err := stop.result(); err != nil {
			t.Error(err)
		}
		wantError(t, start.result(), "was stopped by request")
		wantEvents(t, w.events(), "start mcp.a", "ready mcp.a", "stop mcp.a", "gone mcp.a")
		wantStates(t, w.states("a"), Starting, Stopping, Stopped)
	})
}

func TestAStartAfterAStopThatIsUnderWay(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"))
		w.startAll()
		w.let("a", plan{stop: func(ctx context.Context, _ time.Duration) error { return pause(ctx, time.Second) }})
		stop := w.askStop("a")
		start := w.askStart("a")
		time.Sleep(time.Second)
		if err := stop.result(); err != nil { // though it runs again
			t.Error(err)
		}
		time.Sleep(launchTime)
		if err := start.result(); err != nil {
			t.Error(err)
		}
		w.want("a", Ready)
	})
}

func TestAStartAfterACrashThatIsBeingCleanedUpIsNoRetry(t *testing.T) {
	for _, policy := range []string{config.RestartAlways, config.RestartNever} {
		t.Run(policy, func(t *testing.T) {
			in(t, func(t *testing.T) {
				w := newWorld(t, withPolicy(svc("a"), func(p *config.Restart) { p.Policy = policy }))
				w.startAll()
				w.let("a", plan{stop: func(ctx context.Context, _ time.Duration) error { return pause(ctx, time.Second) }})
				w.states("a")
				w.crash("a")
				w.want("a", Stopping)
				start := w.askStart("a")
				time.Sleep(time.Second + launchTime)
				if err := start.result(); err != nil {
					t.Error(err)
				}
				wantStates(t, w.states("a"), Stopping, Starting, Ready)
			})
		})
	}
}

func TestAStartThatCannotComeIsAnswered(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("c", "b"), svc("b", "a"), withPolicy(svc("a"), func(p *config.Restart) { p.Limit = 1 }))
		wantError(t, w.Start(t.Context(), ref("b")), "service mcp.b waits for mcp.a, which is stopped")
		wantError(t, w.Start(t.Context(), ref("c")), "service mcp.c waits for mcp.a, which is stopped")
		w.want("c", Waiting, "b", Waiting)

		// While the dependency is on its way there is something to wait for.
		w.let("a", plan{launch: fails})
		_ = w.askStart("a").result()
		waiting := w.askStart("c")
		if !waiting.pending() {
			t.Error("it was answered before the next try")
		}
		time.Sleep(time.Hour)
		wantError(t, waiting.result(), "service mcp.c waits for mcp.a, which is failed")

		// It was only the answer: the wish stays.
		w.let("a", plan{})
		w.askStart("a")
		time.Sleep(3 * launchTime)
		w.want("a", Ready, "b", Ready, "c", Ready)
	})
}

func TestAStartThatWaitsForWhatFailsIsAnswered(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("d"), svc("c", "b"), svc("b", "d", "a"), withPolicy(svc("a"), func(p *config.Restart) { p.Limit = 0 }))
		if err := w.Start(t.Context(), ref("d")); err != nil {
			t.Fatal(err)
		}
		w.let("a", plan{launch: fails})
		direct := w.askStart("a")
		wantError(t, direct.result(), "cannot start service mcp.a: ")
		w.want("a", Backoff)
		b, c := w.askStart("b"), w.askStart("c")
		if !b.pending() || !c.pending() {
			t.Error("they were answered before the next try")
		}
		time.Sleep(time.Minute)
		for name, waiting := range map[string]*request{"b": b, "c": c} {
			wantError(t, waiting.result(), "service mcp."+name+" waits for mcp.a, which is backoff: cannot start service mcp.a: ")
		}

		// It was only the answer: the wish stays.
		w.want("b", Waiting, "c", Waiting)
		w.let("a", plan{})
		time.Sleep(time.Hour)
		w.want("a", Ready, "b", Ready, "c", Ready)
	})
}

func TestAStopThatLeavesSomething(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"))
		w.startAll()
		w.let("a", plan{stop: func(context.Context, time.Duration) error { return survivor(4711) }})
		err := w.Stop(t.Context(), ref("a"))
		var alive *probes.SurvivorsError
		if !errors.As(err, &alive) || !strings.Contains(err.Error(), "cannot stop service mcp.a: still alive") {
			t.Errorf("the error is %v", err)
		}
		w.want("a", Failed)
		if s := w.status("a"); s.PID == 0 || !strings.Contains(s.LastError, "4711") {
			t.Errorf("the status is %+v", s)
		}
		// Neither a start nor a restart gives a second instance.
		wantError(t, w.Start(t.Context(), ref("a")), "4711")
		wantError(t, w.Restart(t.Context(), ref("a")), "4711")
		w.want("a", Failed)

		w.let("a", plan{})
		w.events()
		if err := w.Start(t.Context(), ref("a")); err != nil {
			t.Error(err)
		}
		wantEvents(t, w.events(), "stop mcp.a", "gone mcp.a", "start mcp.a", "ready mcp.a")
	})
}

func TestAServiceOfWhichSomethingIsLeftGoesOnWhenItIsGone(t *testing.T) {
	stubborn := plan{stop: func(context.Context, time.Duration) error { return survivor(4711) }}
	for _, tt := range []struct {
		name   string
		plan   plan
		happen func(w *world)
		want   State
	}{
		{"after a crash it is restarted", stubborn, func(w *world) { w.crash("a") }, Ready},
		{"after a restart too", stubborn, func(w *world) { _ = w.Restart(context.Background(), ref("a")) }, Ready},
		{"after a stop it is stopped", stubborn, func(w *world) { _ = w.Stop(context.Background(), ref("a")) }, Stopped},
		{"the last request counts", stubborn, func(w *world) {
			w.crash("a")
			time.Sleep(time.Second)
			_ = w.Stop(context.Background(), ref("a"))
		}, Stopped},
		{"a start that left something is tried again", plan{
			launch: func(context.Context) (bool, error) { return true, survivor(4711) },
			stop:   stubborn.stop,
		}, func(w *world) {
			_ = w.Stop(context.Background(), ref("a"))
			_ = w.Start(context.Background(), ref("a"))
		}, Ready},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in(t, func(t *testing.T) {
				w := newWorld(t, svc("a"))
				w.startAll()
				w.let("a", tt.plan)
				tt.happen(w)
				time.Sleep(time.Hour)
				// A try may be under way.
				if s := w.status("a"); s.State != Failed && s.State != Stopping {
					t.Errorf("it is %s, and something is left", s.State)
				}
				w.let("a", plan{})
				time.Sleep(2 * stopAgain)
				w.want("a", tt.want)
			})
		})
	}
}

func TestAFailedStartThatLeavesSomething(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"))
		w.let("a", plan{
			launch: func(context.Context) (bool, error) { return true, errors.New("it lists no tools") },
			stop:   func(context.Context, time.Duration) error { return survivor(4711) },
		})
		err := w.Start(t.Context(), ref("a"))
		wantError(t, err, "4711")
		wantError(t, err, "it lists no tools") // why it was to be stopped
		w.want("a", Failed)
		wantError(t, w.Stop(t.Context(), ref("a")), "4711")
		wantError(t, w.StopAll(t.Context()), "4711")
		w.let("a", plan{})
		if err := w.StopAll(t.Context()); err != nil {
			t.Error(err)
		}
		w.want("a", Stopped)
	})
}

// Something of another instance, which holds the port say, is no part of the
// service.
func TestSurvivorsOfOthersAreAFailureLikeAnother(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"))
		w.let("a", plan{launch: func(context.Context) (bool, error) { return false, survivor(4711) }})
		wantError(t, w.Start(t.Context(), ref("a")), "4711")
		w.want("a", Backoff)
		w.let("a", plan{})
		time.Sleep(time.Hour)
		w.want("a", Ready)
		if err := w.Stop(t.Context(), ref("a")); err != nil {
			t.Error(err)
		}
	})
}

func TestAnAbortedStartThatLeavesSomethingIsStopped(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(w *world) error
		want time.Duration
	}{
		{"within its grace", func(w *world) error { return w.Stop(w.t.Context(), ref("a")) }, 10 * time.Second},
		{"at once if there is a hurry", func(w *world) error {
			hurry, cancel := context.WithTimeout(w.t.Context(), time.Second)
			defer cancel()
			return w.StopAll(hurry)
		}, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in(t, func(t *testing.T) {
				w := newWorld(t, svc("a"))
				w.let("a", plan{
					launch: func(ctx context.Context) (bool, error) {
						<-ctx.Done()
						return true, ctx.Err()
					},
					stop: func(ctx context.Context, grace time.Duration) error {
						_ = pause(ctx, grace)
						return nil
					},
				})
				start := w.askStart("a")
				w.want("a", Starting)
				begun := time.Now()
				if err := tt.end(w); err != nil {
					t.Error(err)
				}
				if took := time.Since(begun); took != tt.want {
					t.Errorf("it took %v, want %v", took, tt.want)
				}
				if start.result() == nil {
					t.Error("the start was answered as if it were ready")
				}
				w.want("a", Stopped)
			})
		})
	}
}

func TestAnAbortedStartOfWhichSomethingCannotBeEnded(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"))
		w.let("a", plan{
			launch: func(ctx context.Context) (bool, error) {
				<-ctx.Done()
				return true, ctx.Err()
			},
			stop: func(context.Context, time.Duration) error { return survivor(4711) },
		})
		start, stop := w.askStart("a"), w.askStop("a")
		wantError(t, start.result(), "stopped by request")
		wantError(t, stop.result(), "4711")
		w.want("a", Failed)
		w.let("a", plan{})
		if err := w.Stop(t.Context(), ref("a")); err != nil {
			t.Error(err)
		}
	})
}

func TestAFailedStartThatLeavesSomethingIsRetriedOnceThatIsGone(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"))
		w.let("a", plan{launch: func(context.Context) (bool, error) { return true, errors.New("it lists no tools") }})
		wantError(t, w.Start(t.Context(), ref("a")), "it lists no tools")
		w.want("a", Backoff)
		wantEvents(t, w.events(), "start mcp.a", "ready mcp.a", "stop mcp.a", "gone mcp.a")
		w.let("a", plan{})
		time.Sleep(time.Hour)
		w.want("a", Ready)
	})
}

func TestTheStopGraceIsTheServices(t *testing.T) {
	in(t, func(t *testing.T) {
		s := svc("a")
		s.StopGrace = 42 * time.Second
		w := newWorld(t, s)
		w.startAll()
		w.let("a", plan{stop: func(_ context.Context, grace time.Duration) error {
			if grace != 42*time.Second {
				t.Errorf("the grace is %v", grace)
			}
			return nil
		}})
		if err := w.Stop(t.Context(), ref("a")); err != nil {
			t.Error(err)
		}
	})
}

func TestStopAllGoesAgainstTheDependencies(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"), svc("b", "a"), svc("c", "b"), svc("d", "a"), svc("alone"))
		w.startAll()
		for _, name := range []string{"a", "b", "c", "d", "alone"} {
			w.let(name, plan{stop: func(ctx context.Context, _ time.Duration) error { return pause(ctx, time.Second) }})
		}
		w.events()
		begun := time.Now()
		if err := w.StopAll(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != 3*time.Second {
			t.Errorf("it took %v: c, d and the one alone at once, then b, then a", took)
		}
		events := w.events()
		for _, pair := range [][2]string{{"c", "b"}, {"b", "a"}, {"d", "a"}} {
			gone, next := slices.Index(events, "gone mcp."+pair[0]), slices.Index(events, "stop mcp."+pair[1])
			if gone < 0 || next < gone {
				t.Errorf("%s was stopped before %s was gone: %v", pair[1], pair[0], events)
			}
		}
	})
}

func TestStopAllInEveryState(t *testing.T) {
	for _, test := range intoStates {
		t.Run(string(test.state), func(t *testing.T) {
			in(t, func(t *testing.T) {
				w := newWorld(t, svc("a", "b"), svc("b"), svc("never-started"))
				test.bring(w)
				w.want("a", test.state)
				if err := w.StopAll(t.Context()); err != nil {
					t.Error(err)
				}
				w.mu.Lock()
				w.log = nil
				w.mu.Unlock()
				time.Sleep(time.Hour)
				for _, s := range w.Statuses() {
					if s.State != Stopped && (test.state != Failed || s.State != Failed) {
						t.Errorf("%s is %s", s.Service, s.State)
					}
				}
				wantEvents(t, w.events())
			})
		})
	}
}

func TestNothingStartsOnceTheHostEnds(t *testing.T) {
	in(t, func(t *testing.T) {
		// The stop of the one on top takes long; what it needs crashes, fails
		// and waits meanwhile.
		w := newWorld(t, svc("crashed"), svc("restarted"), svc("in-backoff"), svc("top", "crashed", "restarted", "in-backoff"))
		w.startAll()
		w.crash("in-backoff")
		w.want("in-backoff", Backoff)
		w.let("top", plan{stop: func(ctx context.Context, _ time.Duration) error { return pause(ctx, time.Minute) }})
		w.let("restarted", plan{stop: func(ctx context.Context, _ time.Duration) error { return pause(ctx, time.Second) }})
		restart := w.askRestart("restarted")
		ended := make(chan error, 1)
		go func() { ended <- w.StopAll(t.Context()) }()
		synctest.Wait()
		w.events()

		w.crash("crashed")
		if err := w.Start(t.Context(), ref("in-backoff")); !errors.Is(err, ErrShuttingDown) {
			t.Errorf("a start: %v", err)
		}
		if err := w.Stop(t.Context(), ref("crashed")); !errors.Is(err, ErrShuttingDown) {
			t.Errorf("a stop: %v", err)
		}
		if err := w.Restart(t.Context(), ref("restarted")); !errors.Is(err, ErrShuttingDown) {
			t.Errorf("a restart: %v", err)
		}
		w.StartAll()
		time.Sleep(30 * time.Second)
		w.want("crashed", Stopped, "restarted", Stopped, "in-backoff", Stopped, "top", Stopping)
		if err := restart.result(); !errors.Is(err, ErrShuttingDown) {
			t.Errorf("the restart under way: %v", err)
		}
		time.Sleep(time.Hour)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for _, event := range w.events() {
			if strings.HasPrefix(event, "start") {
				t.Error(event)
			}
		}
	})
}

func TestALaunchThatFailsWhileTheHostEndsIsNotTriedAgain(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"), svc("top", "a"))
		w.startAll()
		w.let("a", plan{launch: func(ctx context.Context) (bool, error) {
			return false, errors.Join(pause(ctx, time.Second), errors.New("it failed"))
		}})
		w.let("top", plan{stop: func(ctx context.Context, _ time.Duration) error { return pause(ctx, time.Minute) }})
		w.crash("a")
		time.Sleep(steady.Delay)
		start := w.askStart("a")
		w.want("a", Starting)
		if err := w.StopAll(t.Context()); err != nil {
			t.Error(err)
		}
		if err := start.result(); !errors.Is(err, ErrShuttingDown) {
			t.Errorf("the start: %v", err)
		}
		w.want("a", Stopped)
	})
}

func TestAHurryTakesTheGrace(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"), svc("b", "a"))
		w.startAll()
		for _, name := range []string{"a", "b"} {
			w.let(name, plan{stop: func(ctx context.Context, _ time.Duration) error {
				_ = pause(ctx, time.Hour)
				return nil
			}})
		}
		hurry, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		if err := w.StopAll(hurry); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != time.Minute {
			t.Errorf("it took %v, want the minute before the hurry", took)
		}
	})
}

func TestStopAllNamesSurvivorsAndTriesAgain(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"), svc("b", "a"), svc("c"))
		w.startAll()
		w.let("b", plan{stop: func(context.Context, time.Duration) error { return survivor(4711) }})
		w.let("c", plan{stop: func(context.Context, time.Duration) error { return survivor(4712) }})
		err := w.StopAll(t.Context())
		wantError(t, err, "cannot stop service mcp.b: still alive after the forced signal: pid 4711")
		wantError(t, err, "cannot stop service mcp.c: still alive after the forced signal: pid 4712")
		w.want("a", Stopped, "b", Failed, "c", Failed)

		w.let("b", plan{})
		if err = w.StopAll(t.Context()); err == nil || strings.Contains(err.Error(), "4711") {
			t.Errorf("the second time: %v", err)
		}
		w.want("b", Stopped, "c", Failed)
		w.let("c", plan{})
		if err := w.StopAll(t.Context()); err != nil {
			t.Errorf("the third time: %v", err)
		}
	})
}

func TestSurvivorsThatAStopEndedAreNotNamedLater(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"))
		w.startAll()
		w.let("a", plan{stop: func(context.Context, time.Duration) error { return survivor(4711) }})
		wantError(t, w.Stop(t.Context(), ref("a")), "4711")
		w.let("a", plan{})
		if err := w.Stop(t.Context(), ref("a")); err != nil {
			t.Error(err)
		}
		if err := w.StopAll(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestTwoStopAllsAtOnceBothReturn(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"))
		w.startAll()
		ended := make(chan error, 2)
		for range cap(ended) {
			go func() { ended <- w.StopAll(t.Context()) }()
		}
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Error(err)
		}
	})
}

func TestStopAllWithoutServices(t *testing.T) {
	in(t, func(t *testing.T) {
		if err := newWorld(t).StopAll(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestRequestsThatCannotBeAnswered(t *testing.T) {
	in(t, func(t *testing.T) {
		w := newWorld(t, svc("a"))
		var unknown *UnknownServiceError
		err := w.Start(t.Context(), config.Ref{Kind: config.KindAgent, Name: "a"})
		if !errors.As(err, &unknown) || err.Error() != "there is no service agent.a in the configuration" {
			t.Errorf("an unknown service: %v", err)
		}

		w.let("a", plan{launch: hang})
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.Start(impatient, ref("a")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nobody waits any more: %v", err)
		}
		w.want("a", Starting) // the request stands
		if err := w.StopAll(t.Context()); err != nil {
			t.Error(err)
		}
		w.endLoop()
		<-w.done
		for _, request := range []func(context.Context, config.Ref) error{w.Start, w.Stop, w.Restart} {
			if err := request(t.Context(), ref("a")); !errors.Is(err, ErrShuttingDown) {
				t.Errorf("after the loop's end: %v", err)
			}
		}
		if s := w.Statuses(); s != nil {
			t.Errorf("statuses after the loop's end: %v", s)
		}
	})
}

func TestARequestOfALoopThatIsBusyEndsWithItsContext(t *testing.T) {
	in(t, func(t *testing.T) {
		m := New([]config.Service{svc("a")}, nil) // nobody runs it
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := m.Start(ctx, ref("a")); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}
