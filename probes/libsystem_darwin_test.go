package probes

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/plughost/plughost/shared/marker"
)

func TestLibprocIsTrusted(t *testing.T) {
	t.Parallel()
	if err := socketsTrusted(); err != nil {
		t.Error(err)
	}
	pids, err := allPIDs()
	if err != nil || !slices.Contains(pids, os.Getpid()) || !slices.Contains(pids, 1) {
		t.Errorf("%d pids, %v", len(pids), err)
	}
	if _, ok := socketsOf(maxPID+1, 80, nil); ok {
		t.Error("a process that is none has sockets")
	}
}

// The identifier stays over an exec, the version does not.
func TestUniqIdentifier(t *testing.T) {
	t.Parallel()
	h := start(t, "exec-loop", "")
	first, ok := readUniq(h.pid())
	if !ok || first.id == 0 {
		t.Fatalf("%+v, %t", first, ok)
	}
	for range 100_000 {
		now, ok := readUniq(h.pid())
		if !ok || now.id != first.id {
			t.Fatalf("%+v, %t, want %+v", now, ok, first)
		}
		if now.version != first.version {
			break
		}
	}
	other, ok := readUniq(start(t, "serve", "").pid())
	if !ok || other.id == first.id || other.version == first.version {
		t.Errorf("another process has %+v, %t", other, ok)
	}
	if uniq, ok := readUniq(maxPID + 1); ok {
		t.Errorf("no process has %+v", uniq)
	}
}

// A signal reaches the version of a pid that is named, and no other.
func TestSignalVersion(t *testing.T) {
	t.Parallel()
	if !Coverage().Hold {
		t.Skip("this macOS can't bind a signal to a process")
	}
	h := start(t, "serve", "")
	p := open(t, h.pid())
	uniq, ok := readUniq(h.pid())
	if !ok {
		t.Fatal("no version")
	}
	for _, wrong := range []uint32{uniq.version + 1, uniq.version - 1, 0} {
		if err := signalVersion(newAuditToken(h.pid(), wrong), syscall.SIGKILL); !errors.Is(err, unix.ESRCH) {
			t.Errorf("version %d, not %d: %v, want ESRCH", wrong, uniq.version, err)
		}
	}
	if p.Exited() {
		t.Fatal("it was ended")
	}
	if err := signalVersion(newAuditToken(h.pid(), uniq.version), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A process that executes itself over and over takes a signal all the same.
func TestSignalDuringExec(t *testing.T) {
	t.Parallel()
	for range 5 {
		p := open(t, start(t, "exec-loop", "").pid())
		if err := p.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A program of the system's own is known by its birth record only.
func TestWithheldEnviron(t *testing.T) {
	t.Parallel()
	id, _ := ids(t)
	cmd := exec.Command("/bin/sleep", "600")
	cmd.Env = id.Environ()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	p := open(t, cmd.Process.Pid)
	got, err := p.Marker()
	if err == nil && got == id {
		t.Skip("this system does not withhold it")
	}
	if !errors.Is(err, ErrUnreadable) || !errors.Is(err, ErrPermission) {
		t.Errorf("Marker = %+v, %v, want permission", got, err)
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
	info, err := p.Info()
	if err != nil || !slices.Equal(info.Args, []string{"/bin/sleep", "600"}) || info.Command != "sleep" {
		t.Errorf("Info = %+v, %v", info, err)
	}
}

// The Apple strings are no part of an environment.
func TestAppleStrings(t *testing.T) {
	t.Parallel()
	args, err := readProcArgs(start(t, "serve", "", withEnv("ZZZ=last")).pid())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"stack_guard=", "ptr_munge=", "executable_file=", "pfz=0x"} {
		if slices.ContainsFunc(splitNUL(args.Environ), func(s string) bool { return len(s) >= len(name) && s[:len(name)] == name }) {
			t.Errorf("the environment has %s", name)
		}
	}
	if _, err := marker.Parse(args.Environ); !errors.Is(err, marker.ErrUnmarked) {
		t.Errorf("Parse says %v", err)
	}
}

func splitNUL(block []byte) []string {
	var all []string
	start := 0
	for i, c := range block {
		if c == 0 {
			all = append(all, string(block[start:i]))
			start = i + 1
		}
	}
	return all
}

// All ways to ask for the sockets give the same.
func TestSocketsAgree(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Logf("%s: %v", addr, err)
			continue
		}
		defer l.Close()
		port := uint16(l.Addr().(*net.TCPAddr).Port)
		native, err := askLibproc(t.Context(), port, nil)
		if err != nil || len(native) != 1 || native[0].PID != os.Getpid() {
			t.Errorf("%s: libproc: %+v, %v", addr, native, err)
			continue
		}
		for name, ask := range map[string]func() ([]Listener, error){
			"lsof":    func() ([]Listener, error) { return askLsof(t.Context(), port, nil) },
			"netstat": func() ([]Listener, error) { return askNetstat(t.Context(), port) },
		} {
			got, err := ask()
			if err != nil || len(got) != 1 || !got[0].sameSocket(native[0]) {
				t.Errorf("%s: %s: %+v, %v, want %+v", addr, name, got, err, native)
				continue
			}
			if name == "lsof" && (got[0].PID != native[0].PID || got[0].Command != native[0].Command) {
				t.Errorf("%s: lsof: %+v, want %+v", addr, got, native)
			}
		}
	}
}
