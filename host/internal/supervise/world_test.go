package supervise

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/probes"
)

// launchTime is how long a start takes that nothing else is said of.
const launchTime = 100 * time.Millisecond

// world is a manager with instances that are no processes, in the fake time of
// a synctest bubble.
type world struct {
	*Manager
	t       *testing.T
	endLoop context.CancelFunc

	mu      sync.Mutex
	plans   map[config.Ref]plan
	current map[config.Ref]*fake // the instance that was launched last
	live    map[config.Ref]int   // instances that may have processes
	log     []string             // "start mcp.a", "ready mcp.a", "stop mcp.a", "gone mcp.a"
	changes []Change
	ids     int
	// limit is what start_limit is, if it never changes while services start;
	// launching counts launches, ports those who were given one.
	limit     int
	launching int
	ports     map[int]config.Ref
	surviving map[config.Ref]bool // failed, so something may be left
}

// plan is how the instances of a service behave. The zero value is a good one.
type plan struct {
	// launch takes the place of a start that succeeds after launchTime. The
	// instance is returned only if it says so.
	launch func(ctx context.Context) (keep bool, err error)
	// stop takes the place of an end at once.
	stop func(ctx context.Context, grace time.Duration) error
	// health takes the place of an instance that is healthy.
	health func(ctx context.Context) error
}

// fake is an instance.
type fake struct {
	w      *world
	ref    config.Ref
	id     string
	pid    int
	port   int
	exited chan struct{}
	once   sync.Once
	err    error
	gone   bool
}

func (f *fake) ID() string              { return f.id }
func (f *fake) PID() int                { return f.pid }
func (f *fake) Exited() <-chan struct{} { return f.exited }
func (f *fake) ExitError() error        { return f.err }

func (f *fake) Health(ctx context.Context) error {
	if health := f.w.plan(f.ref).health; health != nil {
		return health(ctx)
	}
	return nil
}

// exit ends the plugin's process, as it does by itself.
func (f *fake) exit(err error) {
	f.once.Do(func() {
		f.err = err
		close(f.exited)
	})
}

func (f *fake) Stop(ctx context.Context, grace time.Duration) (probes.Result, error) {
	f.w.note("stop", f.ref)
	if stop := f.w.plan(f.ref).stop; stop != nil {
		if err := stop(ctx, grace); err != nil {
			return probes.Result{}, err
		}
	}
	f.exit(errors.New("signal: terminated"))
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if !f.gone {
		f.gone = true
		f.w.live[f.ref]--
		delete(f.w.ports, f.port)
	}
	f.w.log = append(f.w.log, "gone "+f.ref.String())
	return probes.Result{}, nil
}

// newWorld makes a manager of services and runs it to the end of the test, at
// which it stops all of them and sees that nothing is left.
func newWorld(t *testing.T, services ...config.Service) *world {
	w := &world{
		t:       t,
		plans:   make(map[config.Ref]plan),
		current: make(map[config.Ref]*fake),
		live:    make(map[config.Ref]int),
		ports:   make(map[int]config.Ref),

		surviving: make(map[config.Ref]bool),
	}
	w.Manager = New(services, w.launch, w.watch)
	loop, end := context.WithCancel(context.Background())
	w.endLoop = end
	go w.Run(loop)
	t.Cleanup(func() {
		if loop.Err() != nil {
			return // the test has ended it
		}
		w.mu.Lock()
		clear(w.plans)
		w.mu.Unlock()
		if err := w.StopAll(context.Background()); err != nil {
			t.Errorf("the last StopAll: %v", err)
		}
		for ref, n := range w.live {
			if n != 0 {
				t.Errorf("%d instances of %s are left after StopAll", n, ref)
			}
		}
		end()
		<-w.done
	})
	return w
}

func (w *world) launch(ctx context.Context, service config.Service) (Instance, error) {
	ref := service.Ref()
	w.note("start", ref)
	w.mu.Lock()
	w.ids++
	f := &fake{w: w, ref: ref, id: "instance-" + strconv.Itoa(w.ids), pid: 1000 + w.ids, port: service.Port, exited: make(chan struct{})}
	if w.live[ref]++; w.live[ref] > 1 {
		w.t.Errorf("a start of %s while an instance of it lives", ref)
	}
	if w.launching++; w.limit > 0 && w.launching > w.limit {
		w.t.Errorf("%d services are starting, and start_limit is %d", w.launching, w.limit)
	}
	if holder, taken := w.ports[f.port]; taken && f.port != 0 {
		// What cannot be ended keeps its port; nobody waits for it.
		if !w.surviving[holder] {
			w.t.Errorf("%s is started on port %d, which %s has", ref, f.port, holder)
		}
		f.port = 0
	}
	w.ports[f.port] = ref
	w.mu.Unlock()

	var keep bool
	var err error
	if launch := w.plan(ref).launch; launch != nil {
		keep, err = launch(ctx)
	} else {
		err = pause(ctx, launchTime)
		keep = err == nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.launching--
	if !keep {
		w.live[ref]--
		delete(w.ports, f.port)
		f.exit(err)
		return nil, err
	}
	w.current[ref] = f
	w.log = append(w.log, "ready "+ref.String())
	return f, err
}

// pause is a start or a stop that takes its time, unless it is cut short.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// edges are the transitions that the description of State allows.
var edges = map[State][]State{
	Stopped:  {Waiting, Starting, Removed},
	Waiting:  {Starting, Stopped},
	Starting: {Ready, Backoff, Failed, Stopped, Stopping},
	Ready:    {Stopping, Unhealthy, Stopped},

	Unhealthy: {Stopping, Ready, Stopped},
	Stopping:  {Stopped, Waiting, Starting, Backoff, Failed},
	Backoff:   {Waiting, Starting, Stopped},
	Failed:    {Waiting, Starting, Stopped, Stopping},
}

func (w *world) watch(c Change) {
	left := c.Cause == leftCause
	if !slices.Contains(edges[c.From], c.State) {
		w.t.Errorf("%s went from %s to %s", c.Service, c.From, c.State)
	}
	if (c.Running != nil) != (c.State == Ready || c.State == Unhealthy) {
		w.t.Errorf("%s, which is %s, has the instance %v", c.Service, c.State, c.Running)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.changes); n > 0 && c.Since.Before(w.changes[n-1].Since) {
		w.t.Errorf("%s: changes out of order", c.Service)
	}
	w.changes = append(w.changes, c)
	if left {
		return // for the next host
	}
	switch c.State {
	case Failed:
		w.surviving[c.Service] = true
	case Starting: // nothing is left of the one before
		w.surviving[c.Service] = false
	}
	if slices.Contains([]State{Stopped, Waiting, Starting, Backoff}, c.State) && w.live[c.Service] > 0 {
		w.t.Errorf("%s is %s, and an instance of it lives", c.Service, c.State)
	}
}

func (w *world) note(what string, ref config.Ref) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, what+" "+ref.String())
}

func (w *world) plan(ref config.Ref) plan {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.plans[ref]
}

// let has the instances of a service behave so from now on.
func (w *world) let(name string, p plan) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plans[ref(name)] = p
}

// instance is the one that was launched last.
func (w *world) instance(name string) *fake {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.current[ref(name)]; f != nil {
		return f
	}
	w.t.Fatalf("no instance of %s was launched", name)
	return nil
}

// crash ends the process of a ready service.
func (w *world) crash(name string) { w.instance(name).exit(errors.New("exit status 1")) }

// status is what everybody sees, once nothing moves any more.
func (w *world) status(name string) Status {
	w.t.Helper()
	synctest.Wait()
	for _, s := range w.Statuses() {
		if s.Service == ref(name) {
			return s
		}
	}
	w.t.Fatalf("no status of %s", name)
	return Status{}
}

// want checks the states of services, given as name and state by turns.
func (w *world) want(pairs ...any) {
	w.t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		name, state := pairs[i].(string), pairs[i+1].(State)
		if got := w.status(name); got.State != state {
			w.t.Errorf("%s is %s (%s), want %s", name, got.State, got.Cause, state)
		}
	}
}

// events is the log, and empties it.
func (w *world) events() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	log := w.log
	w.log = nil
	return log
}

// states are those that a service went through, and are forgotten.
func (w *world) states(name string) []State {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	var states []State
	for _, c := range w.changes {
		if c.Service == ref(name) {
			states = append(states, c.State)
		}
	}
	w.changes = nil
	return states
}

// startAll starts all and waits until nothing moves for a while.
func (w *world) startAll() {
	w.StartAll()
	time.Sleep(10 * launchTime)
	synctest.Wait()
}

// request is one that was made and may not have been answered.
type request struct {
	w      *world
	answer <-chan error
}

// ask makes a request of a service, of which it notices too many answers.
func (w *world) ask(what func(*service, chan<- error), name string) *request {
	answer := make(chan error, 8)
	w.send(requestEvent{ref(name), what, answer})
	return &request{w, answer}
}

func (w *world) askStart(name string) *request   { return w.ask((*service).startAsked, name) }
func (w *world) askStop(name string) *request    { return w.ask((*service).stopAsked, name) }
func (w *world) askRestart(name string) *request { return w.ask((*service).restartAsked, name) }

func (r *request) pending() bool {
	synctest.Wait()
	return len(r.answer) == 0
}

// result is the one answer, which must be there.
func (r *request) result() error {
	r.w.t.Helper()
	synctest.Wait()
	if n := len(r.answer); n != 1 {
		r.w.t.Fatalf("a request got %d answers, want 1", n)
	}
	return <-r.answer
}

// in runs a test in a bubble.
func in(t *testing.T, test func(*testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

func ref(name string) config.Ref { return config.Ref{Kind: config.KindMCP, Name: name} }

// svc is a service that waits for others.
func svc(name string, dependsOn ...string) config.Service {
	s := config.Service{
		Kind:      config.KindMCP,
		Name:      name,
		StopGrace: 10 * time.Second,
		Restart:   steady,
	}
	for _, dependency := range dependsOn {
		s.DependsOn = append(s.DependsOn, ref(dependency))
	}
	return s
}

func withPolicy(s config.Service, change func(*config.Restart)) config.Service {
	change(&s.Restart)
	return s
}

// survivor is the error of a stop that left something.
func survivor(pid int) error { return &probes.SurvivorsError{PIDs: []int{pid}} }

// exitStatus is the error of a wait for a process that exited so. It is had
// from a real one, so it is made outside of a bubble.
func exitStatus(t *testing.T, status int) error {
	t.Helper()
	err := exec.Command("/bin/sh", "-c", fmt.Sprintf("exit %d", status)).Run()
	if statusOf(err) != status {
		t.Fatalf("cannot make an exit status of %d: %v", status, err)
	}
	return err
}
