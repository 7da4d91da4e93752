package reclaim_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"

	"github.com/plughost/plughost/host/internal/cgroup"
	"github.com/plughost/plughost/host/internal/reclaim"
	"github.com/plughost/plughost/host/internal/registry"
	"github.com/plughost/plughost/probes"
	"github.com/plughost/plughost/shared/marker"
)

// envHelper has the test binary be a process that lives until it is ended:
// "sleep", "stubborn" (it ignores SIGTERM) or "listen".
const envHelper = "RECLAIM_TEST_HELPER"

func TestMain(m *testing.M) {
	port := 0
	switch os.Getenv(envHelper) {
	case "":
		os.Exit(m.Run())
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	case "listen":
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		port = listener.Addr().(*net.TCPAddr).Port
	}
	fmt.Println("ready", port)
	<-make(chan struct{})
}

// process is a helper that runs, with a marker or without.
type process struct {
	*probes.Process
	birth probes.Birth
	port  int // that it listens on
}

func start(t *testing.T, id marker.Identity, what string) process {
	t.Helper()
	return startIn(t, nil, id, what)
}

// startIn is start in a control group, unless that is nil.
func startIn(t *testing.T, group *cgroup.Group, id marker.Identity, what string) process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append([]string{envHelper + "=" + what}, id.Environ()...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if group != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, group.FD()
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	held, err := probes.Open(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	reaped := make(chan struct{})
	t.Cleanup(func() {
		_ = held.Signal(syscall.SIGKILL)
		<-reaped
		held.Close()
	})
	birth, err := held.Birth()
	if err != nil {
		t.Fatal(err)
	}
	p := process{Process: held, birth: birth}
	if _, err := fmt.Fscanf(stdout, "ready %d\n", &p.port); err != nil {
		t.Fatalf("the helper is not ready: %v", err)
	}
	go func() {
		defer close(reaped)
		_ = cmd.Wait()
	}()
	return p
}

func newReclaimer(t *testing.T) *reclaim.Reclaimer {
	t.Helper()
	reg, _, why, err := registry.Open(filepath.Join(t.TempDir(), "registry.db"))
	if err != nil || why != nil {
		t.Fatal(err, why)
	}
	t.Cleanup(func() { reg.Close() })
	return &reclaim.Reclaimer{
		Installation: uuid.NewString(),
		Registry:     reg,
		Grace:        func(marker.Kind, string) time.Duration { return 200 * time.Millisecond },
		Live:         func(string) bool { return false },
		Log:          hclog.NewNullLogger(),
	}
}

func identity(r *reclaim.Reclaimer) marker.Identity {
	return marker.Identity{
		Kind:         marker.KindMCP,
		Service:      "test",
		Installation: r.Installation,
		Instance:     uuid.Must(uuid.NewV7()).String(),
	}
}

func record(t *testing.T, r *reclaim.Reclaimer, rec registry.Record) {
	t.Helper()
	if err := r.Registry.Put(rec); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, r *reclaim.Reclaimer) reclaim.Report {
	t.Helper()
	report, err := r.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, failure := range report.Failures {
		t.Error(failure)
	}
	return report
}

func records(t *testing.T, r *reclaim.Reclaimer) int {
	t.Helper()
	all, err := r.Registry.All()
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestRecordedInstanceIsEnded(t *testing.T) {
	for _, what := range []string{"sleep", "stubborn"} {
		t.Run(what, func(t *testing.T) {
			r := newReclaimer(t)
			id := identity(r)
			p, child := start(t, id, what), start(t, id, what)
			record(t, r, registry.Record{Identity: id, PID: p.PID(), Birth: p.birth})
			report := run(t, r)
			if !p.Exited() || !child.Exited() {
				t.Error("a process of the instance is still there")
			}
			if len(report.Stopped) != 1 || report.Stopped[0].PID != p.PID() {
				t.Errorf("the report is %+v, want one instance stopped", report)
			}
			if n := records(t, r); n != 0 {
				t.Errorf("%d records are left", n)
			}
		})
	}
}

func TestReusedPIDIsLeftAloneAndItsRecordDropped(t *testing.T) {
	r := newReclaimer(t)
	stranger := start(t, marker.Identity{}, "sleep")
	birth := stranger.birth
	birth.Start++
	birth.PidfdInode = 0
	record(t, r, registry.Record{Identity: identity(r), PID: stranger.PID(), Birth: birth})
	report := run(t, r)
	if stranger.Exited() {
		t.Error("the stranger was ended")
	}
	if len(report.Foreign) != 1 || len(report.Stopped) != 0 {
		t.Errorf("the report is %+v, want one foreign process", report)
	}
	if n := records(t, r); n != 0 {
		t.Errorf("%d records are left", n)
	}
}

func TestChildrenOfAnInstanceWhoseLeaderIsGone(t *testing.T) {
	r := newReclaimer(t)
	id := identity(r)
	gone := start(t, id, "sleep")
	child := start(t, id, "stubborn")
	record(t, r, registry.Record{Identity: id, PID: gone.PID(), Birth: gone.birth})
	if err := gone.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := gone.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	run(t, r)
	if !child.Exited() {
		t.Error("the child is still there")
	}
	if n := records(t, r); n != 0 {
		t.Errorf("%d records are left", n)
	}
}

func TestIntentWithoutAProcess(t *testing.T) {
	r := newReclaimer(t)
	spawned, never := identity(r), identity(r)
	p := start(t, spawned, "sleep") // the host died before it wrote the pid
	record(t, r, registry.Record{Identity: spawned})
	record(t, r, registry.Record{Identity: never})
	run(t, r)
	if !p.Exited() {
		t.Error("the process is still there")
	}
	if n := records(t, r); n != 0 {
		t.Errorf("%d records are left", n)
	}
}

func TestLostRegistry(t *testing.T) {
	r := newReclaimer(t)
	a, b := start(t, identity(r), "sleep"), start(t, identity(r), "stubborn")
	report := run(t, r)
	if !a.Exited() || !b.Exited() {
		t.Error("a marked process is still there")
	}
	if len(report.Stopped) != 2 {
		t.Errorf("the report is %+v, want two instances stopped", report)
	}
}

func TestOthersAreLeftAlone(t *testing.T) {
	r := newReclaimer(t)
	other := identity(r)
	other.Installation = uuid.NewString()
	neighbour := start(t, other, "sleep")
	unmarked := start(t, marker.Identity{}, "sleep")
	host := start(t, marker.Identity{Kind: marker.KindHost, Installation: r.Installation}, "sleep")
	// A registry that was copied from the neighbour.
	record(t, r, registry.Record{Identity: other, PID: neighbour.PID(), Birth: neighbour.birth})
	report := run(t, r)
	for name, p := range map[string]process{"the neighbour": neighbour, "an unmarked process": unmarked, "a host": host} {
		if p.Exited() {
			t.Errorf("%s was ended", name)
		}
	}
	if len(report.Stopped) != 0 {
		t.Errorf("the report is %+v, want nothing stopped", report)
	}
}

// What gave up its marker is found by the control group of its instance, without
// a host and beside one that runs.
func TestUnmarkedProcessesInGroupsAreEnded(t *testing.T) {
	for name, reclaimIt := range map[string]func(*testing.T, *reclaim.Reclaimer) reclaim.Report{
		"without a host": run,
		"beside one":     func(t *testing.T, r *reclaim.Reclaimer) reclaim.Report { return r.RunMarked(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newReclaimer(t)
			tree, err := cgroup.Open(r.Installation)
			if err != nil {
				t.Skip(err)
			}
			r.Groups = tree
			inGroup := func() (process, marker.Identity) {
				id := identity(r)
				group, err := tree.New(id.Instance, cgroup.Limits{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					_, killErr := group.Kill()
					if err := errors.Join(killErr, group.Remove()); err != nil {
						t.Error(err)
					}
				})
				return startIn(t, group, marker.Identity{}, "sleep"), id
			}
			left, leftID := inGroup()
			live, liveID := inGroup()
			r.Live = func(instance string) bool { return instance == liveID.Instance }
			report := reclaimIt(t, r)
			if !left.Exited() {
				t.Error("what was left in a group is still there")
			}
			if live.Exited() {
				t.Error("a process of a live instance was ended")
			}
			if len(report.Failures) != 0 || len(report.Groups) != 1 || report.Groups[0].Instance != leftID.Instance {
				t.Errorf("the report is %+v, want the one group", report)
			}
		})
	}
}

func TestFreePort(t *testing.T) {
	t.Run("nobody has it", func(t *testing.T) {
		if err := newReclaimer(t).FreePort(t.Context(), 1); err != nil {
			t.Error(err)
		}
	})
	t.Run("a leftover has it", func(t *testing.T) {
		r := newReclaimer(t)
		p := start(t, identity(r), "listen")
		if err := r.FreePort(t.Context(), p.port); err != nil {
			t.Error(err)
		}
		if !p.Exited() {
			t.Error("the leftover is still there")
		}
	})
	t.Run("an instance that runs has it", func(t *testing.T) {
		r := newReclaimer(t)
		p := start(t, identity(r), "listen")
		r.Live = func(string) bool { return true }
		checkHeld(t, r.FreePort(t.Context(), p.port), p, "which runs for service mcp.test")
	})
	t.Run("a stranger has it", func(t *testing.T) {
		r := newReclaimer(t)
		p := start(t, marker.Identity{}, "listen")
		checkHeld(t, r.FreePort(t.Context(), p.port), p, "a stranger to this installation")
	})
	t.Run("another installation has it", func(t *testing.T) {
		r := newReclaimer(t)
		id := identity(r)
		id.Installation = uuid.NewString()
		p := start(t, id, "listen")
		checkHeld(t, r.FreePort(t.Context(), p.port), p, "a stranger to this installation")
	})
}

func checkHeld(t *testing.T, err error, holder process, want string) {
	t.Helper()
	var held *reclaim.PortHeldError
	if !errors.As(err, &held) || len(held.Holders) != 1 || held.Holders[0].PID != holder.PID() {
		t.Fatalf("the error is %v, want one that names pid %d", err, holder.PID())
	}
	for _, text := range []string{fmt.Sprint("pid ", holder.PID()), "left alone", want} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error lacks %q: %v", text, err)
		}
	}
	if holder.Exited() {
		t.Error("the holder was ended")
	}
}
