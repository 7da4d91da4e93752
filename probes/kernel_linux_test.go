package probes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/plughost/plughost/shared/marker"
)

// rule makes a system call fail, if its argument has the given value or if
// that is anything.
type rule struct {
	call     uintptr
	argument int
	value    uint32
	anything bool
	errno    unix.Errno
}

// kernels are helpers' views of kernels that lack something.
var kernels = map[string][]rule{
	"before 6.9":      {{call: unix.SYS_PIDFD_SEND_SIGNAL, argument: 3, value: unix.PIDFD_SIGNAL_PROCESS_GROUP, errno: unix.EINVAL}},
	"before 5.3":      {{call: unix.SYS_PIDFD_OPEN, anything: true, errno: unix.ENOSYS}},
	"without signals": {{call: unix.SYS_PIDFD_SEND_SIGNAL, anything: true, errno: unix.EPERM}},
	"without netlink": {{call: unix.SYS_SOCKET, argument: 0, value: unix.AF_NETLINK, errno: unix.EAFNOSUPPORT}},
	"without epoll":   {{call: unix.SYS_EPOLL_CREATE1, anything: true, errno: unix.EMFILE}},
}

// restrict lets the rules hold for all threads of the calling process.
func restrict(rules []rule) error {
	const callAt, argsAt = 0, 16 // in struct seccomp_data
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	unless := func(value uint32, skip uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: skip, K: value}
	}
	answer := func(value uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value}
	}
	var filter []unix.SockFilter
	for _, r := range rules {
		fail := answer(unix.SECCOMP_RET_ERRNO | uint32(r.errno))
		if r.anything {
			filter = append(filter, load(callAt), unless(uint32(r.call), 1), fail)
			continue
		}
		// The low half, on the machines that tests run on.
		filter = append(filter,
			load(callAt), unless(uint32(r.call), 3),
			load(uint32(argsAt+8*r.argument)), unless(r.value, 1), fail)
	}
	filter = append(filter, answer(unix.SECCOMP_RET_ALLOW))
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}

func partOldKernel(arg string) {
	fields := strings.Split(arg, ",")
	pid, _ := strconv.Atoi(fields[1])
	start, _ := strconv.ParseUint(fields[3], 10, 64)
	port, _ := strconv.Atoi(fields[5])
	// Go's poller needs an epoll instance of its own.
	if _, err := os.ReadFile("/proc/self/stat"); err != nil {
		fatal(err)
	}
	if err := restrict(kernels[fields[0]]); err != nil {
		fmt.Println("skip:", err)
		return
	}
	c := Coverage()
	fmt.Println("coverage:", c.Supported, c.HeldGroup, c.Sockets)
	r := Record{
		PID: pid, Birth: Birth{BootID: fields[2], PID: pid, Start: start},
		Identity: marker.Identity{Installation: fields[4]}, Group: true,
	}
	got, err := Stop(context.Background(), r, short)
	fmt.Println("stop:", got.Outcome, got.How, got.Swept, err)
	found, err := Listeners(context.Background(), port)
	if err != nil {
		fmt.Println("listeners:", err)
	} else {
		fmt.Println("listeners:", found[0].PID)
	}
}

// Kernels that lack something, made of this one: either another way leads to
// the same end, or nothing is signalled.
func TestOlderKernels(t *testing.T) {
	t.Parallel()
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("the filter is made for 64 bits")
	}
	if c := Coverage(); !c.HeldGroup || !c.Sockets {
		t.Skip("this kernel lacks something itself")
	}
	server := start(t, "listen", "tcp4 127.0.0.1:0")
	for _, tt := range []struct {
		name, coverage, stop string
		ended                bool
	}{
		{"before 6.9", "true false true", "stopped killed [MEMBER] <nil>", true},
		{"before 5.3", "false false true", "unknown none [] <nil>", false},
		{"without signals", "false false true", "", false},
		{"without netlink", "true true false", "stopped killed [MEMBER] <nil>", true},
		{"without epoll", "true true true", "stopped killed [MEMBER] <nil>", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			id, _ := ids(t)
			h := start(t, "scrubbing", "stubborn", withGroup(), withMarker(id))
			member := open(t, h.numbers[0])
			r := record(t, h, id, true)
			out, err := self("old-kernel", strings.Join([]string{
				tt.name, strconv.Itoa(r.PID), r.Birth.BootID, strconv.FormatUint(r.Birth.Start, 10),
				id.Installation, strconv.Itoa(server.numbers[0]),
			}, ","), marker.Scrub(os.Environ())).Output()
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				t.Fatalf("%v: %s", err, exit.Stderr)
			}
			if reason, ok := strings.CutPrefix(string(out), "skip:"); ok {
				t.Skipf("no seccomp: %s", reason)
			}
			if !strings.HasPrefix(string(out), "coverage: "+tt.coverage+"\n") {
				t.Errorf("it says:\n%swant: %s", out, tt.coverage)
			}
			want := "coverage: " + tt.coverage + "\nstop: " + strings.Replace(tt.stop, "MEMBER", strconv.Itoa(member.PID()), 1) +
				"\nlisteners: " + strconv.Itoa(server.pid()) + "\n"
			if tt.stop != "" && string(out) != want {
				t.Errorf("it says:\n%swant:\n%s", out, want)
			}
			t.Logf("%s", out)
			if got := open(t, h.pid()).Exited() && member.Exited(); got != tt.ended {
				t.Errorf("ended: %t, want %t", got, tt.ended)
			}
		})
	}
}
