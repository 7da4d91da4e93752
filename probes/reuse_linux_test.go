package probes

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
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
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		t.Fatal(err)
	}
	// Go looks once whether pidfds work, with a fork: out of the way.
	if err := exec.Command("/proc/self/exe", "-test.run=^$").Run(); err != nil {
		t.Fatal(err)
	}

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

// startAs starts a helper that gets the given pid.
func startAs(t *testing.T, pid int, options ...option) *helper {
	t.Helper()
	for range 50 {
		// The kernel gives the number after the last one that is free.
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0); err != nil {
			t.Skipf("the kernel does not let pids be chosen: %v", err)
		}
		h := start(t, "serve", "", options...)
		if h.pid() == pid {
			return h
		}
		h.kill()
	}
	t.Fatalf("pid %d is not given anew", pid)
	return nil
}

// insideNamespace runs the calling test again in a pid namespace of its own.
func insideNamespace(t *testing.T) {
	t.Helper()
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v=true"}
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
