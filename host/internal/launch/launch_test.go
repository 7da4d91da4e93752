package launch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plughost/plughost/host/internal/installation"
	"github.com/plughost/plughost/host/internal/launch"
	"github.com/plughost/plughost/host/internal/registry"
	"github.com/plughost/plughost/probes"
	"github.com/plughost/plughost/shared/marker"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// patience bounds what must happen; it measures nothing.
const patience = 60 * time.Second

func newLauncher(t *testing.T) *launch.Launcher {
	t.Helper()
	dir, err := os.MkdirTemp("", "launch-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	inst, err := installation.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inst.Close() })
	if err := inst.PrepareRunDir(func(string) bool { return false }); err != nil {
		t.Fatal(err)
	}
	keys, err := inst.Keys()
	if err != nil {
		t.Fatal(err)
	}
	reg, _, why, err := registry.Open(inst.Registry())
	if err != nil || why != nil {
		t.Fatal(err, why)
	}
	t.Cleanup(func() { reg.Close() })
	return &launch.Launcher{Installation: inst, Keys: keys, Registry: reg, Spawner: &launch.Spawner{}}
}

// lines collects what a plugin writes.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) add(stream launch.Stream, line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(stream)+": "+string(line))
}

func (l *lines) contain(want string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if line == want {
			return true
		}
	}
	return false
}

// after returns what follows the beginning of a line, or nothing.
func (l *lines) after(beginning string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if text, ok := strings.CutPrefix(line, beginning); ok {
			return text
		}
	}
	return ""
}

func spec(t *testing.T, plugin string, out *lines) launch.Spec {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return launch.Spec{
		Kind:         marker.KindMCP,
		Name:         "test",
		Path:         self,
		Args:         []string{"test-plugin"},
		Dir:          t.TempDir(),
		Env:          []string{envPlugin + "=" + plugin},
		ReadyTimeout: patience,
		Output:       out.add,
	}
}

func timeout(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// checkNothingLeft checks that no process, record or directory of any instance
// is left.
func checkNothingLeft(t *testing.T, l *launch.Launcher) {
	t.Helper()
	found, err := probes.List(t.Context(), probes.Filter{Installation: l.Installation.ID})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		t.Errorf("pid %d is left: %v", f.PID, f.Identity)
	}
	records, err := l.Registry.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range records {
		t.Errorf("instance %s is still recorded", record.Identity.Instance)
	}
	entries, err := os.ReadDir(l.Installation.RunDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		t.Errorf("%s is left in the run directory", entry.Name())
	}
}

func TestLaunchAndStop(t *testing.T) {
	l := newLauncher(t)
	out := &lines{}
	inst, err := l.Launch(timeout(t), spec(t, "noisy", out))
	if err != nil {
		t.Fatal(err)
	}
	records, err := l.Registry.All()
	if err != nil || len(records) != 1 {
		t.Fatalf("%d records (%v), want one", len(records), err)
	}
	process, err := probes.Open(inst.PID())
	if err != nil {
		t.Fatal(err)
	}
	defer process.Close()
	proof := process.Identify(probes.Expect{Identity: records[0].Identity, Birth: records[0].Birth})
	if proof.Verdict != probes.Ours {
		t.Errorf("the record proves the process %v: %s", proof.Verdict, proof.Reason)
	}
	if !l.Live(inst.ID()) {
		t.Error("the instance is not live")
	}
	health, err := plughostv1.NewPluginClient(inst.Conn()).Health(timeout(t), &plughostv1.HealthRequest{})
	if err != nil || health.GetStatus() != plughostv1.HealthResponse_STATUS_SERVING {
		t.Errorf("health is %v (%v), want serving", health.GetStatus(), err)
	}

	result, err := inst.Stop(timeout(t), patience)
	if err != nil || result.Outcome != probes.OutcomeStopped || result.How == probes.Killed {
		t.Errorf("stop gives %+v (%v), want it stopped without force", result, err)
	}
	if again, err := inst.Stop(timeout(t), patience); err != nil || again.Outcome != result.Outcome {
		t.Errorf("a second stop gives %+v (%v), want the same", again, err)
	}
	if l.Live(inst.ID()) {
		t.Error("the instance is still live")
	}
	for _, want := range []string{"stdout: Welcome!", "stdout: 1|2", `stdout: {"@message":1}`, `stderr: {"@message":1}`} {
		if !out.contain(want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	checkNothingLeft(t, l)
}

func TestFailedStarts(t *testing.T) {
	tests := []struct {
		name, plugin string
		change       func(*launch.Spec)
		want         []string
	}{
		{"no plugin at all", "usage", nil, []string{"ended before it was ready: exit status 2", "without go-plugin's handshake", "exec in place of command", "usage: frobnicate FILE"}},
		{"an end without a word", "mute", nil, []string{"ended before it was ready: exit status 0"}},
		{"never ready", "hang", hurried, []string{"not ready within 300ms"}},
		{"half a handshake", "half", hurried, []string{"not ready within 300ms"}},
		{"somebody else's socket", "elsewhere", nil, []string{"/run/systemd/notify", "not in its directory"}},
		{"a newer protocol", "newer", nil, []string{"the plugin speaks version 2 of the plughost plugin protocol, and this host version 1", "update plughost"}},
		{"an older protocol", "older", nil, []string{"the plugin speaks version 0 of the plughost plugin protocol, and this host version 1", "build the plugin again"}},
		{"a newer go-plugin", "newer-core", nil, []string{"version 2 of go-plugin's handshake, and this host version 1"}},
		{"a plugin of another program", "foreign", nil, []string{"a go-plugin plugin of another program"}},
		{"a process left behind", "leaver", nil, []string{"exit status 3", "leaving"}},
		{"a plugin of the other kind", "good", func(s *launch.Spec) { s.Kind = marker.KindAgent }, []string{`of kind "mcp"`, `service "mcp" "test"`}},
		{"no such file", "good", func(s *launch.Spec) { s.Path = "/nonexistent/plugin" }, []string{"/nonexistent/plugin"}},
		{"no such directory", "good", func(s *launch.Spec) { s.Dir = "/nonexistent" }, []string{"/nonexistent"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := newLauncher(t)
			s := spec(t, test.plugin, &lines{})
			if test.change != nil {
				test.change(&s)
			}
			inst, err := l.Launch(timeout(t), s)
			if err == nil {
				_, _ = inst.Stop(timeout(t), 0)
				t.Fatal("it was launched")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error lacks %q: %v", want, err)
				}
			}
			checkNothingLeft(t, l)
		})
	}
}

func hurried(s *launch.Spec) { s.ReadyTimeout = 300 * time.Millisecond }

func TestAbortedStartLeavesNothing(t *testing.T) {
	for _, plugin := range []string{"hang", "half", "leaver", "good"} {
		t.Run(plugin, func(t *testing.T) {
			l := newLauncher(t)
			ctx, abort := context.WithCancel(t.Context())
			defer abort()
			launched := make(chan error, 1)
			go func() {
				inst, err := l.Launch(ctx, spec(t, plugin, &lines{}))
				if err == nil {
					_, err = inst.Stop(context.Background(), 0)
				}
				launched <- err
			}()
			// The abort comes anywhere in the start: as soon as the intent is
			// there.
			for {
				records, err := l.Registry.All()
				if err != nil {
					t.Fatal(err)
				}
				if len(records) > 0 {
					break
				}
			}
			abort()
			select {
			case err := <-launched:
				if err != nil && plugin != "leaver" && !errors.Is(err, context.Canceled) {
					t.Errorf("the error is %v, want that it was canceled", err)
				}
			case <-time.After(patience):
				t.Fatal("the abort takes no effect")
			}
			checkNothingLeft(t, l)
		})
	}
}

func TestExitIsSeenWhileAChildHoldsThePipes(t *testing.T) {
	l := newLauncher(t)
	inst, err := l.Launch(timeout(t), spec(t, "parent", &lines{}))
	if err != nil {
		t.Fatal(err)
	}
	process, err := probes.Open(inst.PID())
	if err != nil {
		t.Fatal(err)
	}
	defer process.Close()
	if err := process.Signal(9); err != nil {
		t.Fatal(err)
	}
	select {
	case <-inst.Exited():
	case <-time.After(patience):
		t.Fatal("the exit is not seen")
	}
	if err := inst.ExitError(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("it ended with %v, want signal: killed", err)
	}
	result, err := inst.Stop(timeout(t), 0)
	if err != nil || len(result.Swept) != 1 {
		t.Errorf("stop gives %+v (%v), want one other process ended", result, err)
	}
	checkNothingLeft(t, l)
}

func TestManyAtOnce(t *testing.T) {
	l := newLauncher(t)
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			s := spec(t, "good", &lines{})
			s.Name = fmt.Sprintf("test%d", i)
			inst, err := l.Launch(timeout(t), s)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := inst.Stop(timeout(t), patience); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	checkNothingLeft(t, l)
}

func TestInstanceFilesArePrivate(t *testing.T) {
	l := newLauncher(t)
	inst, err := l.Launch(timeout(t), spec(t, "good", &lines{}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := inst.Stop(timeout(t), 0); err != nil {
			t.Error(err)
		}
	}()
	dir := l.Installation.InstanceDir(inst.ID())
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the instance's directory has mode %v (%v), want 0700", info.Mode(), err)
	}
	keys, err := filepath.Glob(filepath.Join(dir, "*.pem"))
	if err != nil || len(keys) != 3 {
		t.Fatalf("%v (%v) are the TLS files, want three", keys, err)
	}
	for _, key := range keys {
		if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v (%v), want 0600", key, info.Mode(), err)
		}
	}
}

func TestExitStatusOfAFailedStartIsKept(t *testing.T) {
	l := newLauncher(t)
	_, err := l.Launch(timeout(t), spec(t, "usage", &lines{}))
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Errorf("the error is %v, want one that has exit status 2", err)
	}
}

// A stop that cannot remove the record, on a full disk say, has ended the
// process: what is left to do is done by the next stop.
func TestAStopGoesOnWhereOneBeforeFailed(t *testing.T) {
	l := newLauncher(t)
	inst, err := l.Launch(timeout(t), spec(t, "good", &lines{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Registry.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := inst.Stop(timeout(t), patience); err == nil {
		t.Fatal("the stop says that the record is removed, and the registry is closed")
	}
	if l.Registry, _, _, err = registry.Open(l.Installation.Registry()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Registry.Close() })
	if _, err := inst.Stop(timeout(t), time.Second); err != nil {
		t.Errorf("the second stop fails: %v", err)
	}
	checkNothingLeft(t, l)
}
