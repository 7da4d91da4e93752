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

// A process inside of a pid namespace, which calls itself 1 there, is seen from
// outside by its outer pid, and so are its children.
func TestPIDNamespace(t *testing.T) {
	t.Parallel()
	needRoot(t)
	id, _ := ids(t)
	h := start(t, "leader", "serve", withGroup(), withMarker(id), withNamespaces(unix.CLONE_NEWPID))
	if h.numbers[0] >= h.pid() {
		t.Fatalf("the child inside calls itself %d, and its parent is %d outside", h.numbers[0], h.pid())
	}
	p := open(t, h.pid())
	if got, err := p.Marker(); err != nil || got != id {
		t.Errorf("Marker = %+v, %v", got, err)
	}
	r := record(t, h, id, true)
	if r.Birth.PID != h.pid() || r.Birth.Start == 0 {
		t.Errorf("Birth = %+v", r.Birth)
	}
	for _, e := range []Expect{{Identity: id}, {Birth: r.Birth}} {
		if proof := p.Identify(e); proof.Verdict != Ours {
			t.Errorf("%+v: %v (%s), want ours", e, proof.Verdict, proof.Reason)
		}
	}
	if proof := p.Identify(Expect{Identity: marker.Identity{Installation: "another"}}); proof.Verdict != NotOurs {
		t.Errorf("to another installation it is %v, want not ours", proof.Verdict)
	}
	found, err := List(t.Context(), Filter{Instance: id.Instance})
	if err != nil || len(found) != 2 || found[0].PID != h.pid() || found[0].Birth != r.Birth || found[1].PPID != h.pid() {
		t.Fatalf("List = %+v, %v", found, err)
	}
	child := found[1].PID
	got, err := Stop(t.Context(), r, 0)
	expect(t, got, err, OutcomeStopped, Killed, child)
	expectEmpty(t, id)
}

// Where /proc is mounted with hidepid, another user's processes are not to be
// seen, or not to be looked into. The answers are then not known, never wrong.
func TestHidePID(t *testing.T) {
	needRoot(t)
	const user = 54321
	id, _ := ids(t)
	own := start(t, "serve", "", withMarker(id), withUID(user))
	other := start(t, "listen", "tcp4 127.0.0.1:0", withMarker(id))
	for _, mount := range []string{"hidepid=1", "hidepid=2", "hidepid=4", "hidepid=2,subset=pid"} {
		t.Run(mount, func(t *testing.T) {
			birth, err := open(t, other.pid()).Birth()
			if err != nil {
				t.Fatal(err)
			}
			cmd := self("hidden", strings.Join([]string{
				mount, strconv.Itoa(own.pid()), strconv.Itoa(other.pid()), id.Installation, strconv.Itoa(other.numbers[0]),
				birth.BootID, strconv.FormatUint(birth.Start, 10), strconv.FormatUint(birth.PidfdInode, 10),
			}, " "), marker.Scrub(os.Environ()))
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
			out, err := cmd.Output()
			var exit *exec.ExitError
			switch {
			case errors.Is(err, unix.EPERM):
				t.Skip("mount namespaces are not permitted here")
			case errors.As(err, &exit):
				t.Fatalf("%v: %s", err, exit.Stderr)
			case err != nil:
				t.Fatal(err)
			}
			if reason, ok := strings.CutPrefix(string(out), "skip:"); ok {
				t.Skipf("this kernel has no such mount: %s", reason)
			}
			listed := fmt.Sprintf("[%d], error false", own.pid())
			if strings.Contains(mount, "subset") {
				listed = "[], error true" // without a boot id there is no birth record
			}
			want := fmt.Sprintf(`own by marker: ours, permission false
other by marker: unknown, permission true
other by birth: unknown, permission true
other by another birth: unknown, permission true
listed: %s
holder: 0, reason true
stop: unknown, none, []
`, listed)
			if string(out) != want {
				t.Errorf("it says:\n%swant:\n%s", out, want)
			}
			if open(t, other.pid()).Exited() {
				t.Error("it was ended")
			}
		})
	}
}

// partHidden looks around as another user, where /proc is mounted as it is told.
func partHidden(arg string) {
	fields := strings.Fields(arg)
	number := func(i int) int {
		n, err := strconv.Atoi(fields[i])
		if err != nil {
			fatal(err)
		}
		return n
	}
	own, other, installation, port := number(1), number(2), fields[3], number(4)
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		fatal(err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, fields[0]); err != nil {
		fmt.Println("skip:", err)
		return
	}
	if err := syscall.Setgroups(nil); err != nil {
		fatal(err)
	}
	if err := syscall.Setgid(54321); err != nil {
		fatal(err)
	}
	if err := syscall.Setuid(54321); err != nil {
		fatal(err)
	}
	id := marker.Identity{Installation: installation}
	birth := Birth{BootID: fields[5], PID: other, Start: uint64(number(6)), PidfdInode: uint64(number(7))}
	another := birth
	another.Start++
	say := func(what string, pid int, e Expect) {
		p, err := Open(pid)
		if err != nil {
			fatal(err)
		}
		proof := p.Identify(e)
		fmt.Printf("%s: %v, permission %t\n", what, proof.Verdict, errors.Is(proof.Err, ErrPermission))
	}
	say("own by marker", own, Expect{Identity: id})
	say("other by marker", other, Expect{Identity: id})
	say("other by birth", other, Expect{Identity: id, Birth: birth})
	say("other by another birth", other, Expect{Identity: id, Birth: another})
	found, err := List(context.Background(), Filter{Installation: installation})
	fmt.Printf("listed: %v, error %t\n", pids(found), err != nil)
	listeners, err := Listeners(context.Background(), port)
	if err != nil || len(listeners) != 1 {
		fatal(fmt.Errorf("%+v, %w", listeners, err))
	}
	fmt.Printf("holder: %d, reason %t\n", listeners[0].PID, listeners[0].Reason != "")
	result, err := Stop(context.Background(), Record{PID: other, Identity: id, Group: true}, 0)
	if err != nil {
		fatal(err)
	}
	fmt.Printf("stop: %v, %v, %v\n", result.Outcome, result.How, result.Swept)
}

func withNamespaces(flags uintptr) option {
	return func(cmd *exec.Cmd) { cmd.SysProcAttr.Cloneflags |= flags }
}
