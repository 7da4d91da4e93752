package probes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

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
	p, err := os.StartProcess("/proc/self/exe", []string{"helper"}, &os.ProcAttr{Env: env, Files: []*os.File{inR, outW, os.Stderr}})
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
	for i := range 12 {
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

func TestIdentifyOverwrittenEnviron(t *testing.T) {
	t.Parallel()
	id, _ := ids(t)
	p := open(t, start(t, "overwrite", "", withMarker(id)).pid())
	if _, err := p.Marker(); !errors.Is(err, ErrUnreadable) {
		t.Errorf("Marker says %v, want unreadable", err)
	}
	if proof := p.Identify(Expect{Identity: id}); proof.Verdict != Unknown {
		t.Errorf("by marker: %v (%s), want unknown", proof.Verdict, proof.Reason)
	}
	birth, err := p.Birth()
	if err != nil {
		t.Fatal(err)
	}
	if proof := p.Identify(Expect{Identity: id, Birth: birth}); proof.Verdict != Ours || proof.By != ByBirth {
		t.Errorf("by birth: %v by %s (%s), want ours", proof.Verdict, proof.By, proof.Reason)
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
	if ours < 150 {
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
	if got, err := fork(id).Marker(); err != nil || got != id {
		t.Errorf("worker of a service: %+v, %v", got, err)
	}
	if got, err := fork(hostID).Marker(); !errors.Is(err, ErrUnreadable) {
		t.Errorf("worker of a host: %+v, %v, want unreadable", got, err)
	}
	if got, err := fork(marker.Identity{}).Marker(); !errors.Is(err, marker.ErrUnmarked) {
		t.Errorf("worker of an unmarked process: %+v, %v, want unmarked", got, err)
	}
}

func TestIdentifyFirstThreadDead(t *testing.T) {
	t.Parallel()
	id, _ := ids(t)
	h := start(t, "first-thread-dead", "", withMarker(id))
	p := open(t, h.pid())
	// The thread ends a moment after the helper said that it is ready.
	for {
		st, err := p.handle.stat()
		if err != nil {
			t.Fatal(err)
		}
		if st.dead() {
			break
		}
	}
	if s, err := p.State(); err != nil || s != Alive {
		t.Errorf("State = %v, %v, want alive", s, err)
	}
	if got, err := p.Marker(); err != nil || got != id {
		t.Errorf("Marker = %+v, %v", got, err)
	}
	found, err := List(t.Context(), Filter{Instance: id.Instance})
	if err != nil || len(found) != 1 {
		t.Errorf("List = %+v, %v", found, err)
	}
}

func TestIdentifyEmptyEnviron(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/bin/cat")
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	in, err := cmd.StdinPipe()
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
	if _, err := open(t, cmd.Process.Pid).Marker(); !errors.Is(err, marker.ErrUnmarked) {
		t.Errorf("Marker says %v, want unmarked", err)
	}
}

func TestIdentifyKernelThread(t *testing.T) {
	t.Parallel()
	const kthreadd = 2
	var buf [2048]byte
	line, err := readSome(unix.AT_FDCWD, procPath(kthreadd, "stat"), buf[:])
	if err != nil {
		t.Skip("no kernel thread in sight")
	}
	if st, err := parseStat(line); err != nil || !st.kernel() {
		t.Skip("no kernel thread in sight")
	}
	p := open(t, kthreadd)
	if proof := p.Identify(Expect{Identity: marker.Identity{Installation: "x"}}); proof.Verdict != NotOurs {
		t.Errorf("verdict %v (%s), want not ours", proof.Verdict, proof.Reason)
	}
	info, err := p.Info()
	if err != nil || !info.Kernel || info.Command != "kthreadd" {
		t.Errorf("Info = %+v, %v", info, err)
	}
}

// Another user's processes, and those of one's own that are not dumpable, are
// withheld from a user without privileges. The look is taken by a helper.
func TestIdentifyWithoutPrivileges(t *testing.T) {
	t.Parallel()
	needRoot(t)
	id, _ := ids(t)
	const user, stranger = 54321, 54322
	tests := []struct {
		name string
		p    *helper
		want string
	}{
		{"own", start(t, "serve", "", withMarker(id), withUID(user)), "ours"},
		{"other user", start(t, "serve", "", withMarker(id), withUID(stranger)), "unknown permission"},
		{"root", start(t, "serve", "", withMarker(id)), "unknown permission"},
		{"not dumpable", start(t, "undumpable", "", withMarker(id), withUID(user)), "unknown permission"},
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

func TestIdentifyExhausted(t *testing.T) {
	t.Parallel()
	id, _ := ids(t)
	h := start(t, "serve", "", withMarker(id))
	out, err := self("exhausted", strconv.Itoa(h.pid())+" "+id.Installation, marker.Scrub(os.Environ())).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := "open: true\nidentify: unknown true\nlist: true\nstop: unknown true\nlisteners: true\nafter: ours\n"
	if string(out) != want {
		t.Errorf("without descriptors:\n%swant:\n%s", out, want)
	}
}

// partExhausted has no file descriptor left.
func partExhausted(arg string) {
	target, installation, _ := strings.Cut(arg, " ")
	pid, _ := strconv.Atoi(target)
	p, err := Open(pid)
	if err != nil {
		fatal(err)
	}
	l, err := listenAnywhere()
	if err != nil {
		fatal(err)
	}
	var spare []int
	for {
		fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
		if errors.Is(err, unix.EMFILE) {
			break
		}
		if err != nil {
			fatal(err)
		}
		spare = append(spare, fd)
	}
	id := marker.Identity{Installation: installation}
	_, err = Open(pid)
	fmt.Println("open:", errors.Is(err, syscall.EMFILE))
	proof := p.Identify(Expect{Identity: id})
	fmt.Println("identify:", proof.Verdict, errors.Is(proof.Err, syscall.EMFILE))
	_, err = List(context.Background(), Filter{Installation: installation})
	fmt.Println("list:", errors.Is(err, syscall.EMFILE))
	result, err := Stop(context.Background(), Record{PID: pid, Identity: id}, 0)
	fmt.Println("stop:", result.Outcome, err == nil && errors.Is(result.Proof.Err, syscall.EMFILE))
	_, err = Listeners(context.Background(), l)
	fmt.Println("listeners:", errors.Is(err, syscall.EMFILE))
	for _, fd := range spare {
		_ = unix.Close(fd)
	}
	fmt.Println("after:", p.Identify(Expect{Identity: id}).Verdict)
}
