package probes

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/plughost/plughost/shared/marker"
)

// insideEnv says that the test already runs in a pid namespace of its own.
const insideEnv = "PROBES_TEST_INSIDE"

// A recorded process dies, and a stranger is given its pid, once unmarked and
// once with the marker of another instance. Nothing reaches the stranger.
func TestPIDReuse(t *testing.T) {
	if os.Getenv(insideEnv) == "" {
		insideNamespace(t)
		return
	}
	furnishNamespace(t)
	id, _ := ids(t)
	other := id
	other.Instance += "-other"
	for _, tt := range []struct {
		name    string
		options []option
		birth   bool // the record holds one
		unique  bool // with the pidfd's inode
	}{
		{"unmarked, known by marker", []option{withGroup()}, false, false},
		{"unmarked, known by birth", []option{withGroup()}, true, true},
		{"of another instance, known by marker", []option{withGroup(), withMarker(other)}, false, false},
		{"of another instance, known by birth", []option{withGroup(), withMarker(other)}, true, true},
		{"of the same instance, known by birth", []option{withGroup(), withMarker(id)}, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := start(t, "serve", "", withGroup(), withMarker(id))
			r := record(t, h, id, true)
			stale := open(t, h.pid())
			if !tt.birth {
				r.Birth = Birth{}
			}
			if tt.unique && r.Birth.PidfdInode == 0 {
				t.Skip("start times are all there is, and they may be equal")
			}
			h.kill()
			stranger := startAs(t, h.pid(), tt.options...)
			p := open(t, stranger.pid())

			// The hold on the process that is gone reaches nobody.
			if err := stale.Signal(syscall.SIGKILL); !errors.Is(err, ErrGone) {
				t.Errorf("Signal says %v, want gone", err)
			}
			if err := stale.SignalGroup(syscall.SIGKILL); !errors.Is(err, ErrGone) {
				t.Errorf("SignalGroup says %v, want gone", err)
			}
			if err := stale.handle.killGroup(syscall.SIGKILL); !errors.Is(err, ErrGone) {
				t.Errorf("killGroup says %v, want gone", err)
			}
			if _, err := stale.Birth(); !errors.Is(err, ErrGone) {
				t.Errorf("Birth says %v, want gone", err)
			}
			if _, err := stale.Marker(); !errors.Is(err, ErrGone) {
				t.Errorf("Marker says %v, want gone", err)
			}
			if _, err := stale.Group(); !errors.Is(err, ErrGone) {
				t.Errorf("Group says %v, want gone", err)
			}
			if proof := stale.Identify(Expect{Identity: id, Birth: r.Birth}); proof.Verdict != Unknown {
				t.Errorf("the one that is gone is %v", proof.Verdict)
			}
			if _, err := StopHeld(t.Context(), stale, Record{PID: r.PID, Birth: r.Birth, Group: true}, 0); err != nil {
				t.Errorf("StopHeld: %v", err)
			}
			if members, err := stale.handle.groupMembers(t.Context()); err != nil || len(members) > 0 {
				t.Errorf("members of a group that is gone: %v, %v", members, err)
			}

			// Nor does a record.
			if tt.birth {
				proof := p.Identify(Expect{Identity: id, Birth: r.Birth})
				if proof.Verdict != NotOurs || proof.By != ByBirth {
					t.Errorf("the stranger is %v by %s", proof.Verdict, proof.By)
				}
				r.Identity.Instance = "" // or the last one would be swept by its marker
			}
			got, err := Stop(t.Context(), r, 0)
			if err != nil || got.Outcome != OutcomeNotOurs || len(got.Swept) > 0 {
				t.Errorf("Stop = %+v, %v, want not ours", got, err)
			}
			if p.Exited() {
				t.Error("the stranger was ended")
			}
		})
	}
}

// recorder is a stranger that says which signals it gets: at once, or when it is
// asked whether all is well.
const recorder = `
for s in HUP INT QUIT USR1 USR2 ALRM TERM CONT TSTP; do trap "echo got $s" $s; done
echo ready
while read line; do echo fine; done`

// In 1,000 rounds a process that a stop has to do with is replaced by a stranger
// with its pid, at each step of the stop and in all of its roles. The stranger
// leads a group that has the number of the one before it. It proves that nothing
// reached it.
func TestPIDReuseAtEachStep(t *testing.T) {
	if os.Getenv(insideEnv) == "" {
		insideNamespace(t)
		return
	}
	furnishNamespace(t)
	id, _ := ids(t)
	var cases []reuse
	for role, steps := range map[string][]step{
		"recorded": {
			stepOpen, stepOpened, stepIdentified, stepSearched, stepAsked, stepWaiting, stepForce, stepForced,
		},
		"swept": {
			stepGlanced, stepHeld, stepExamined, stepSearched, stepAsked, stepWaiting, stepForce, stepForced,
		},
		"swept later": {stepGlanced, stepHeld, stepExamined, stepFound, stepFoundSignalled, stepWaiting},
		"member": {
			stepMemberSeen, stepMemberHeld, stepSearched, stepAsked, stepWaiting, stepForce, stepForced,
		},
	} {
		for _, s := range steps {
			cases = append(cases, reuse{role: role, step: s})
		}
	}
	slices.SortFunc(cases, func(a, b reuse) int {
		return cmp.Or(strings.Compare(a.role, b.role), strings.Compare(string(a.step), string(b.step)))
	})
	rounds := 1000
	if testing.Short() {
		rounds = 8 * len(cases)
	}
	for i := range rounds {
		r := cases[i%len(cases)]
		variant := i / len(cases)
		r.birth, r.marked, r.group = variant%2 == 0, variant/2%2 == 0, variant/4%2 == 0
		r.id = id
		r.id.Instance += "-" + strconv.Itoa(i)
		for again := 0; !r.run(t) && again < 10; again++ {
			r.id.Instance += "-again"
		}
		if t.Failed() {
			t.Fatalf("round %d: %+v", i, r)
		}
	}
	t.Logf("%d rounds", rounds)
}

// reuse is one round.
type reuse struct {
	role   string // of the process that is replaced
	step   step
	birth  bool // the record holds the birth record
	group  bool // the record says that there is a group
	marked bool // the stranger carries the marker of another instance
	id     marker.Identity
}

// run plays the round. It reports whether the pid could be given anew: one that a
// thread of the test itself has got meanwhile can't.
func (r reuse) run(t *testing.T) bool {
	t.Helper()
	// Those that ignore the polite signal are there for the steps after it.
	const serve, stubborn = "echo ready; read line", "trap '' TERM; echo ready; read line"
	script := serve
	if r.step == stepWaiting || r.step == stepForced || r.step == stepAsked {
		script = stubborn
	}
	var all []*helper
	launch := func(script string, options ...option) *helper {
		h := startShell(t, script, options...)
		all = append(all, h)
		return h
	}
	defer func() {
		for _, h := range all {
			h.end()
		}
	}()

	rec := Record{PID: maxPID, Identity: r.id, Group: r.group} // of a process that is gone
	want := OutcomeNotRunning
	var victim *helper
	switch r.role {
	case "recorded":
		victim = launch(script, withGroup(), withMarker(r.id))
		rec.PID = victim.pid()
	case "swept":
		victim = launch(script, withGroup(), withMarker(r.id))
	case "swept later":
		// The one that is there first has to end before it.
		launch(serve, withGroup(), withMarker(r.id))
	case "member":
		leader := launch(serve, withGroup(), withMarker(r.id))
		victim = launch(script, withGroupOf(leader.pid()))
		rec.PID, rec.Group = leader.pid(), true
		want = OutcomeStopped
	}
	if r.birth && rec.PID != maxPID {
		p, err := Open(rec.PID)
		if err != nil {
			t.Fatal(err)
		}
		if rec.Birth, err = p.Birth(); err != nil {
			t.Fatal(err)
		}
		_ = p.Close()
	}
	if r.role == "recorded" {
		switch {
		case r.step == stepOpen && r.birth && rec.Birth.PidfdInode == 0:
			return true // start times are all there is, and they may be equal
		case r.step == stepOpen:
			want = OutcomeNotOurs
		case r.step != stepOpened:
			want = OutcomeStopped
		}
	}

	options := []option{withGroup()}
	if r.marked {
		other := r.id
		other.Instance += "-other"
		options = append(options, withMarker(other))
	}
	var stranger *helper
	var replacing sync.WaitGroup
	replaced := false
	replace := func() {
		victim.kill()
		stranger = takeOver(t, victim.pid(), recorder, options...)
	}
	testHook = func(s step) {
		if r.role == "swept later" && s == stepAsked && victim == nil {
			victim = launch(script, withGroup(), withMarker(r.id))
			return
		}
		if s != r.step || victim == nil || replaced {
			return
		}
		replaced = true
		if s == stepWaiting {
			replacing.Go(replace)
			return
		}
		replace()
	}
	grace := long
	if r.step == stepForce || r.step == stepForced {
		grace = 0
	}
	got, err := Stop(t.Context(), rec, grace)
	testHook = nil
	replacing.Wait()
	switch {
	case !replaced:
		t.Fatal("the step was not reached")
	case stranger == nil:
		return false
	}
	all = append(all, stranger)

	if err != nil || got.Outcome != want {
		t.Errorf("Stop = %v (%s), %v, want %v", got.Outcome, got.Proof.Reason, err, want)
	}
	if r.role == "recorded" && len(got.Swept) > 0 {
		t.Errorf("swept: %v", got.Swept)
	}
	stranger.say("is all well?")
	line, err := stranger.out.ReadString('\n')
	if line != "fine\n" || err != nil {
		t.Errorf("the stranger says %q, %v", line, err)
	}
	return true
}

// startAs starts a helper that gets the given pid.
func startAs(t *testing.T, pid int, options ...option) *helper {
	t.Helper()
	h := as(t, pid, func() *helper { return start(t, "serve", "", options...) })
	if h == nil {
		t.Fatalf("pid %d is not given anew", pid)
	}
	return h
}

// takeOver starts a shell that gets the given pid, or returns nil.
func takeOver(t *testing.T, pid int, script string, options ...option) *helper {
	t.Helper()
	return as(t, pid, func() *helper { return startShell(t, script, options...) })
}

func as(t *testing.T, pid int, start func() *helper) *helper {
	t.Helper()
	for range 50 {
		// The kernel gives the number after the last one that is free.
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0); err != nil {
			t.Skipf("the kernel does not let pids be chosen: %v", err)
		}
		h := start()
		if h.pid() == pid {
			return h
		}
		h.end()
	}
	return nil
}

// furnishNamespace makes the pid namespace that the test runs in usable.
func furnishNamespace(t *testing.T) {
	t.Helper()
	mountProc(t, "")
	// Go looks once whether pidfds work, with a fork: out of the way.
	if err := exec.Command("/proc/self/exe", "-test.run=^$").Run(); err != nil {
		t.Fatal(err)
	}
	// Threads take pids as well: those that will be needed are made now.
	var threads sync.WaitGroup
	all := make(chan struct{})
	for range 40 {
		threads.Add(1)
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			threads.Done()
			<-all
		}()
	}
	threads.Wait()
	close(all)
}

// mountProc mounts the caller's own /proc, in a mount namespace of its own.
func mountProc(t *testing.T, options string) {
	t.Helper()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, options); err != nil {
		t.Fatal(err)
	}
}

// insideNamespace runs the calling test again in a pid namespace of its own.
func insideNamespace(t *testing.T) {
	t.Helper()
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v=true", "-test.short=" + strconv.FormatBool(testing.Short())}
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(marker.Scrub(os.Environ()), insideEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS,
	}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EACCES):
		t.Skipf("pid namespaces are not permitted here: %v", err)
	case err != nil:
		t.Fatalf("%v:\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skipf("inside of the namespace:\n%s", out)
	}
	t.Logf("inside of the namespace:\n%s", out)
}
