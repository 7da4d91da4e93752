package supervise

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plughost/plughost/host/internal/config"
)

// TestWhateverHappens makes random requests of random services whose instances
// start, fail, hang, end and survive at random. The world checks at every
// transition that it is allowed and that there is at most one instance; here
// it is checked that every request gets exactly one answer, that an answer
// keeps what it says, that nothing is left at the end and that, all worlds taken
// together, each transition that is allowed was made.
func TestWhateverHappens(t *testing.T) {
	seen := make(map[edge]bool)
	seeds := uint64(300)
	if testing.Short() {
		seeds = 30
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			in(t, func(t *testing.T) { chaos(t, rand.New(rand.NewPCG(seed, 0)), seen) })
		})
	}
	in(t, func(t *testing.T) { failWhileItEnds(t, seen) })
	in(t, func(t *testing.T) { leaveWhatIsUp(t, seen) })
	for e := range allEdges() {
		if !seen[e] && !testing.Short() {
			t.Errorf("no service ever went from %s to %s", e.from, e.to)
		}
	}
}

func chaos(t *testing.T, random *rand.Rand, seen map[edge]bool) {
	// Each depends on some of those before it, listed in any order.
	var services []config.Service
	var names []string
	for i := range 2 + random.IntN(5) {
		name := string(rune('a' + i))
		s := svc(name)
		for _, other := range names {
			if random.IntN(3) == 0 {
				s.DependsOn = append(s.DependsOn, ref(other))
			}
		}
		s.Restart.Policy = []string{config.RestartAlways, config.RestartOnFailure, config.RestartNever}[random.IntN(3)]
		s.Restart.Limit = random.IntN(4)
		if random.IntN(3) == 0 {
			s.Health = config.Health{Interval: time.Second, Timeout: time.Second, Failures: 1 + random.IntN(3)}
		}
		names = append(names, name)
		services = append(services, s)
	}
	random.Shuffle(len(services), func(i, j int) { services[i], services[j] = services[j], services[i] })
	w := newWorld(t, services...)
	w.limit = random.IntN(4)
	w.LimitStarts(w.limit)

	var requests []*request
	pick := func() string { return names[random.IntN(len(names))] }
	for range 150 {
		switch random.IntN(11) {
		case 0:
			w.StartAll()
		case 10:
			requests = append(requests, w.update(random, randomUpdate(random, services))...)
		case 1, 2:
			requests = append(requests, w.askStart(pick()))
		case 3:
			requests = append(requests, w.askStop(pick()))
		case 4:
			requests = append(requests, w.askRestart(pick()))
		case 5:
			w.mu.Lock()
			f := w.current[ref(pick())]
			w.mu.Unlock()
			if f != nil {
				f.exit([]error{nil, errors.New("signal: killed")}[random.IntN(2)])
			}
		case 6:
			w.let(pick(), randomPlan(random))
		default:
			time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
		}
		if random.IntN(2) == 0 {
			synctest.Wait()
		}
	}

	// The end, perhaps in a hurry, with more requests on top.
	hurry, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(100))*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- w.StopAll(hurry) }()
	for range 10 {
		requests = append(requests, w.ask([]func(*service, chan<- error){
			(*service).startAsked, (*service).stopAsked, (*service).restartAsked,
		}[random.IntN(3)], pick()))
	}
	if err := <-ended; err != nil {
		t.Logf("StopAll: %v", err) // survivors are part of the game
	}
	synctest.Wait()
	for i, r := range requests {
		if n := len(r.answer); n != 1 {
			t.Errorf("request %d of %d got %d answers", i+1, len(requests), n)
		}
	}
	for _, s := range w.Statuses() {
		if s.State != Stopped && s.State != Failed {
			t.Errorf("%s is %s after StopAll", s.Service, s.State)
		}
	}
	for _, c := range w.changes {
		seen[edge{c.From, c.State}] = true
	}
	w.events()
	time.Sleep(time.Hour)
	if events := w.events(); len(events) > 0 {
		t.Errorf("it went on after StopAll: %v", events)
	}
}

// randomUpdate leaves some services out, changes others, and has ports move.
func randomUpdate(random *rand.Rand, all []config.Service) []config.Service {
	var services []config.Service
	ports := random.Perm(2 * len(all))
	for i, s := range all {
		if random.IntN(4) == 0 {
			continue
		}
		if random.IntN(3) == 0 {
			s.Command = []string{strconv.Itoa(random.IntN(3))}
		}
		if s.StopGrace = 10 * time.Second; random.IntN(3) == 0 {
			s.StopGrace = time.Second
		}
		if ports[i] < len(all) {
			s.Port = 1 + ports[i]
		}
		services = append(services, s)
	}
	random.Shuffle(len(services), func(i, j int) { services[i], services[j] = services[j], services[i] })
	there := func(r config.Ref) bool {
		return slices.ContainsFunc(services, func(s config.Service) bool { return s.Ref() == r })
	}
	for i := range services {
		services[i].DependsOn = slices.DeleteFunc(slices.Clone(services[i].DependsOn), func(r config.Ref) bool { return !there(r) })
	}
	return services
}

// update applies services, and returns what is to be answered. It checks that
// exactly these are there then, beside what is still to end.
func (w *world) update(random *rand.Rand, services []config.Service) []*request {
	update := Update{Services: services, StartLimit: w.limit, Stale: make(map[string]bool)}
	for _, status := range w.Statuses() {
		update.Stale[status.Instance] = random.IntN(10) == 0
	}
	applied, err := w.Apply(w.t.Context(), update)
	if err != nil {
		w.t.Fatal(err)
	}
	statuses := w.Statuses()
	for i, s := range services {
		if i >= len(statuses) || statuses[i].Service != s.Ref() {
			w.t.Errorf("after the update there are %v, want %v first", statuses, services)
			break
		}
	}
	var requests []*request
	for _, answer := range applied.answers {
		if answer != nil {
			requests = append(requests, &request{w, answer})
		}
	}
	return requests
}

// leaveWhatIsUp has services run on without the host.
func leaveWhatIsUp(t *testing.T, seen map[edge]bool) {
	unwell := svc("unwell")
	unwell.Health = config.Health{Interval: time.Second, Timeout: time.Second, Failures: 1000}
	w := newWorld(t, svc("well"), unwell)
	w.let("unwell", plan{health: func(context.Context) error { return errors.New("unwell") }})
	w.startAll()
	time.Sleep(2 * time.Second)
	w.want("well", Ready, "unwell", Unhealthy)
	for _, left := range w.Leave(func(config.Service) bool { return true }) {
		if _, err := w.instance(left.Name).Stop(t.Context(), 0); err != nil {
			t.Error(err)
		}
	}
	for _, c := range w.changes {
		seen[edge{c.From, c.State}] = true
	}
}

// failWhileItEnds has a launch fail that is no longer wanted and was not aborted,
// since another that depends on it is still being stopped. By chance that is
// rare.
func failWhileItEnds(t *testing.T, seen map[edge]bool) {
	w := newWorld(t, svc("a"), svc("b", "a"))
	w.startAll()
	w.let("a", plan{launch: func(ctx context.Context) (bool, error) {
		return false, errors.Join(pause(ctx, time.Minute), errors.New("no"))
	}})
	w.let("b", plan{stop: func(context.Context, time.Duration) error {
		time.Sleep(time.Hour)
		return nil
	}})
	w.crash("a")
	for w.status("a").State != Starting {
		time.Sleep(launchTime)
	}
	if err := w.StopAll(t.Context()); err != nil {
		t.Error(err)
	}
	for _, c := range w.changes {
		seen[edge{c.From, c.State}] = true
	}
	if !seen[edge{Starting, Stopped}] {
		t.Errorf("it went through %v", w.states("a"))
	}
}

// randomPlan is how instances behave from now on; more often well than not.
func randomPlan(random *rand.Rand) plan {
	var p plan
	takes := time.Duration(random.IntN(3000)) * time.Millisecond
	switch random.IntN(8) {
	case 0:
		p.launch = fails
	case 1:
		p.launch = hang
	case 2: // an abort comes too late
		p.launch = func(context.Context) (bool, error) {
			time.Sleep(takes)
			return true, nil
		}
	case 3: // something is left of the start
		p.launch = func(ctx context.Context) (bool, error) { return true, errors.Join(pause(ctx, takes), survivor(1)) }
	}
	if random.IntN(4) == 0 {
		p.health = func(context.Context) error { return errors.New("unwell") }
	}
	switch random.IntN(6) {
	case 0, 1:
		p.stop = func(ctx context.Context, grace time.Duration) error {
			_ = pause(ctx, min(takes, grace))
			return nil
		}
	case 2:
		p.stop = func(ctx context.Context, grace time.Duration) error {
			_ = pause(ctx, min(takes, grace))
			return survivor(2)
		}
	}
	return p
}

// TestAnAnsweredStopLeavesNothing stops at random moments and looks at once.
func TestAnAnsweredStopLeavesNothing(t *testing.T) {
	for seed := range uint64(100) {
		in(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(t, svc("a"), svc("b", "a"))
			for range 20 {
				name := []string{"a", "b"}[random.IntN(2)]
				p := randomPlan(random)
				if p.launch != nil && slices.Contains([]int{0, 1}, random.IntN(3)) {
					p.launch = nil
				}
				w.let(name, p)
				w.askStart(name)
				time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
				if random.IntN(3) == 0 {
					w.askRestart(name)
				}
				err := w.Stop(t.Context(), ref(name))
				w.mu.Lock()
				if n := w.live[ref(name)]; err == nil && n != 0 {
					t.Errorf("seed %d: the stop of %s was answered, and %d instances live", seed, name, n)
				} else if err != nil && n == 0 {
					t.Errorf("seed %d: the stop of %s failed (%v), and nothing is left", seed, name, err)
				}
				w.mu.Unlock()
			}
		})
	}
}
