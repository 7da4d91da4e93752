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
