//go:build linux || darwin || freebsd

package probes

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/plughost/plughost/shared/marker"
)

// ids makes identities that no other test run has.
func ids(t *testing.T) (service, host marker.Identity) {
	t.Helper()
	installation := fmt.Sprintf("%s-%d", t.Name(), os.Getpid())
	service = marker.Identity{
		Kind: marker.KindMCP, Service: "clock", Installation: installation, Instance: installation + "-1",
	}
	host = marker.Identity{Kind: marker.KindHost, Installation: installation}
	return service, host
}

func TestIdentify(t *testing.T) {
	t.Parallel()
	id, hostID := ids(t)
	marked := open(t, start(t, "serve", "", withMarker(id)).pid())
	plain := open(t, start(t, "serve", "").pid())
	// os/exec keeps only the last of two equal names; TestIdentifyDuplicateMarker
	// has both.
	altered := open(t, start(t, "serve", "", withMarker(id), withEnv(marker.Instance+"=x")).pid())
	host := open(t, start(t, "serve", "", withMarker(hostID)).pid())

	birth, err := marked.Birth()
	if err != nil {
		t.Fatal(err)
	}
	other, err := plain.Birth()
	if err != nil {
		t.Fatal(err)
	}
	wrongInstance := id
	wrongInstance.Instance = "another"

	tests := []struct {
		name    string
		p       *Process
		e       Expect
		verdict Verdict
		by      string
	}{
		{"marker", marked, Expect{Identity: id}, Ours, ByMarker},
		{"only the installation", marked, Expect{Identity: marker.Identity{Installation: id.Installation}}, Ours, ByMarker},
		{"another instance", marked, Expect{Identity: wrongInstance}, NotOurs, ByMarker},
		{"a host is no subprocess", marked, Expect{Identity: hostID}, NotOurs, ByMarker},
		{"birth", marked, Expect{Birth: birth}, Ours, ByBirth},
		{"birth has the last word for", marked, Expect{Identity: wrongInstance, Birth: birth}, Ours, ByBirth},
		{"birth has the last word against", marked, Expect{Identity: id, Birth: other}, NotOurs, ByBirth},
		{"nothing expected", marked, Expect{}, Unknown, ""},
		{"only a name expected", marked, Expect{Identity: marker.Identity{Service: "clock"}}, Unknown, ""},
		{"unmarked", plain, Expect{Identity: id}, NotOurs, ByMarker},
		{"another value", altered, Expect{Identity: id}, NotOurs, ByMarker},
		{"host", host, Expect{Identity: hostID}, Ours, ByMarker},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			proof := tt.p.Identify(tt.e)
			if proof.Verdict != tt.verdict || proof.By != tt.by {
				t.Errorf("verdict %v by %q (%s), want %v by %q", proof.Verdict, proof.By, proof.Reason, tt.verdict, tt.by)
			}
			if proof.Verdict != Ours && proof.Reason == "" {
				t.Error("no reason")
			}
		})
	}
}

func TestIdentifyDuplicateMarker(t *testing.T) {
	t.Parallel()
	id, _ := ids(t)
	env := append(id.Environ(), marker.Instance+"=x", helperEnv+"=serve")
	pid := startRaw(t, env)
	p := open(t, pid)
	if proof := p.Identify(Expect{Identity: id}); proof.Verdict != NotOurs {
		t.Errorf("verdict %v (%s), want not ours", proof.Verdict, proof.Reason)
	}
	if _, err := p.Marker(); !errors.Is(err, marker.ErrMalformed) {
		t.Errorf("Marker says %v, want malformed", err)
	}
}

// startRaw starts a helper with just that environment, which os/exec would
// rid of duplicates.
func startRaw(t *testing.T, env []string) int {
	t.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.StartProcess(selfExe, []string{"helper"}, &os.ProcAttr{Env: env, Files: []*os.File{inR, outW, os.Stderr}})
	_, _ = inR.Close(), outW.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = inW.Close()
		_ = p.Kill()
		_, _ = p.Wait()
		_ = outR.Close()
	})
	var buf [64]byte
	if _, err := outR.Read(buf[:]); err != nil {
		t.Fatal(err)
	}
	return p.Pid
}

func TestIdentifyLargeEnviron(t *testing.T) {
	t.Parallel()
	id, _ := ids(t)
	var filler []string
	fillers := 12
	if runtime.GOOS != "linux" {
		fillers = 3 // the limit is lower
	}
	for i := range fillers {
		filler = append(filler, fmt.Sprintf("FILLER_%d=%s", i, strings.Repeat("PLUGHOST_ ", 12<<10)))
	}
	h := start(t, "serve", "", withEnv(filler...), withMarker(id))
	if got, err := open(t, h.pid()).Marker(); err != nil || got != id {
		t.Errorf("Marker = %+v, %v", got, err)
	}
	found, err := List(t.Context(), Filter{Instance: id.Instance})
	if err != nil || len(found) != 1 || found[0].PID != h.pid() {
		t.Errorf("List = %+v, %v", found, err)
	}
}

// A process that executes itself over and over is in a moment of exec nearly
// always. It may be unknown then, but never another one.
func TestIdentifyExecLoop(t *testing.T) {
	t.Parallel()
	id, _ := ids(t)
	p := open(t, start(t, "exec-loop", "", withMarker(id)).pid())
	birth, err := p.Birth()
	if err != nil {
		t.Fatal(err)
	}
	ours := 0
	for range 300 {
		proof := p.Identify(Expect{Identity: id})
		switch proof.Verdict {
		case Ours:
			ours++
		case NotOurs:
			t.Fatalf("not ours: %s", proof.Reason)
		}
		if proof := p.Identify(Expect{Birth: birth}); proof.Verdict != Ours {
			t.Fatalf("by birth: %v (%s)", proof.Verdict, proof.Reason)
		}
	}
	if ours == 0 || runtime.GOOS == "linux" && ours < 150 {
		t.Errorf("ours in %d of 300 looks", ours)
	}
	for range 20 {
		found, err := List(t.Context(), Filter{Instance: id.Instance})
		if err != nil || len(found) > 1 {
			t.Fatalf("List = %+v, %v", found, err)
		}
	}
}

// While a child is being spawned it shares its parent's memory, and so shows
// the parent's environment.
func TestIdentifySpawnedChildIsNotItsParent(t *testing.T) {
	t.Parallel()
	id, hostID := ids(t)
	h := start(t, "spawner", "", withMarker(hostID), withEnv("SPAWNED_INSTANCE="+id.Instance))
	for range 50 {
		found, err := List(t.Context(), Filter{Installation: id.Installation, Hosts: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if f.PID != h.pid() {
				t.Fatalf("a child being spawned passes for a host: %+v", f)
			}
		}
		if len(found) != 1 {
			t.Fatalf("the host is not found: %+v", found)
		}
	}
}

// A fork that executes nothing carries its parent's marker as long as it lives.
func TestIdentifyForkedWorker(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3, to fork without exec")
	}
	id, hostID := ids(t)
	fork := func(id marker.Identity) *Process {
		cmd := exec.Command(python, "-c", `
import os, sys
pid = os.fork()
if pid == 0:
    sys.stdin.read()
    os._exit(0)
print(pid, flush=True)
sys.stdin.read()
os.waitpid(pid, 0)
`)
		cmd.Env = append(marker.Scrub(os.Environ()), id.Environ()...)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = in.Close()
			_ = cmd.Wait()
		})
		var pid int
		if _, err := fmt.Fscan(out, &pid); err != nil {
			t.Fatal(err)
		}
		return open(t, pid)
	}
	got, err := fork(id).Marker()
	if runtime.GOOS == "darwin" && errors.Is(err, ErrPermission) {
		t.Skip("this python3 is one of the system's own")
	}
	if err != nil || got != id {
		t.Errorf("worker of a service: %+v, %v", got, err)
	}
	if got, err := fork(hostID).Marker(); !errors.Is(err, ErrUnreadable) {
		t.Errorf("worker of a host: %+v, %v, want unreadable", got, err)
	}
	if got, err := fork(marker.Identity{}).Marker(); !errors.Is(err, marker.ErrUnmarked) {
		t.Errorf("worker of an unmarked process: %+v, %v, want unmarked", got, err)
	}
}

// Another user's processes, and those of one's own that are not dumpable, are
// withheld from a user without privileges. The look is taken by a helper.
func TestIdentifyWithoutPrivileges(t *testing.T) {
	t.Parallel()
	needRoot(t)
	id, _ := ids(t)
	const user, stranger = 54321, 54322
	type sight struct {
		name string
		p    *helper
		want string
	}
	tests := []sight{
		{"own", start(t, "serve", "", withMarker(id), withUID(user)), "ours"},
		{"other user", start(t, "serve", "", withMarker(id), withUID(stranger)), "unknown permission"},
		{"root", start(t, "serve", "", withMarker(id)), "unknown permission"},
	}
	if runtime.GOOS == "linux" {
		tests = append(tests, sight{"not dumpable", start(t, "undumpable", "", withMarker(id), withUID(user)), "unknown permission"})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if proof := open(t, tt.p.pid()).Identify(Expect{Identity: id}); proof.Verdict != Ours {
				t.Errorf("to root it is %v (%s)", proof.Verdict, proof.Reason)
			}
			out := look(t, tt.p.pid(), id, withUID(user))
			if out[0] != tt.want {
				t.Errorf("by marker it is %q, want %q", out[0], tt.want)
			}
			if out[1] != "ours" {
				t.Errorf("by birth record it is %q, want ours", out[1])
			}
		})
	}
}

// look lets a helper identify a process, by marker and by birth record.
func look(t *testing.T, pid int, id marker.Identity, options ...option) []string {
	t.Helper()
	birth, err := open(t, pid).Birth()
	if err != nil {
		t.Fatal(err)
	}
	cmd := self("look", strings.Join([]string{
		strconv.Itoa(pid), id.Installation,
		birth.BootID, strconv.FormatUint(birth.Start, 10), strconv.FormatUint(birth.PidfdInode, 10),
	}, " "), marker.Scrub(os.Environ()))
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	for _, o := range options {
		o(cmd)
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func partLook(arg string) {
	fields := strings.Fields(arg)
	pid, _ := strconv.Atoi(fields[0])
	start, _ := strconv.ParseUint(fields[3], 10, 64)
	inode, _ := strconv.ParseUint(fields[4], 10, 64)
	p, err := Open(pid)
	if err != nil {
		fatal(err)
	}
	say := func(e Expect) {
		proof := p.Identify(e)
		s := proof.Verdict.String()
		if errors.Is(proof.Err, ErrPermission) {
			s += " permission"
		}
		fmt.Println(s)
	}
	say(Expect{Identity: marker.Identity{Installation: fields[1]}})
	say(Expect{Birth: Birth{BootID: fields[2], PID: pid, Start: start, PidfdInode: inode}})
}
