package probes

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/plughost/plughost/shared/marker"
)

// helperEnv names the part that the test binary plays when it is executed as a
// helper process; helperArg is the part's argument.
const (
	helperEnv = "PROBES_TEST_PART"
	helperArg = "PROBES_TEST_ARG"
)

// parts are what a helper process can do. Each says "ready" and something of
// its own on a line of its standard output, and ends at the end of its standard
// input, which all of its descendants share: none outlives the test.
var parts map[string]func(arg string)

func init() {
	parts = map[string]func(arg string){
		"serve": func(string) {
			ready(os.Getpid())
			untilEOF()
		},
		"stubborn": func(string) {
			signal.Ignore(syscall.SIGTERM)
			ready(os.Getpid())
			untilEOF()
		},
		"overwrite": func(string) {
			overwriteEnviron()
			ready(os.Getpid())
			untilEOF()
		},
		"undumpable": func(string) {
			if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
				fatal(err)
			}
			ready(os.Getpid())
			untilEOF()
		},
		"exec-loop": partExecLoop,
		"zombie": func(string) {
			child := exec.Command("/bin/true")
			child.Env = withoutPart()
			if err := child.Start(); err != nil {
				fatal(err)
			}
			ready(child.Process.Pid)
			untilEOF()
		},
		// leader starts the part that arg names in its own group, and says its pid.
		"leader": func(arg string) {
			child := startChild(arg, nil)
			ready(child)
			untilEOF()
		},
		// scrubbing starts the part that arg names in its own group, without a marker.
		"scrubbing": func(arg string) {
			ready(startChild(arg, marker.Scrub(os.Environ())))
			untilEOF()
		},
		// daemon leaves a process behind, in a session of its own and below init,
		// that carries the marker and plays the part that arg names.
		"daemon": func(arg string) {
			cmd := self("middle", arg, nil)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			cmd.Stdin = os.Stdin
			out, err := cmd.Output()
			if err != nil {
				fatal(err)
			}
			pid, _ := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(string(out), "ready ")))
			ready(pid)
			untilEOF()
		},
		"middle": func(arg string) { ready(startChild(arg, nil)) },
		// breeder has a child that is replaced by another one, ever and again.
		"breeder": func(arg string) {
			ready(os.Getpid())
			go func() {
				for {
					cmd := self("once", "", nil)
					if cmd.Start() == nil {
						_ = cmd.Wait()
					}
				}
			}()
			untilEOF()
		},
		"once": func(string) {},
		// listen listens on a network and an address; listen-two hands its
		// socket to a child, too.
		"listen": func(arg string) {
			network, addr, _ := strings.Cut(arg, " ")
			l, err := net.Listen(network, addr)
			if err != nil {
				fatal(err)
			}
			ready(l.Addr().(*net.TCPAddr).Port)
			untilEOF()
			_ = l.Close()
		},
		"listen-two": func(arg string) {
			l, err := net.Listen("tcp", arg)
			if err != nil {
				fatal(err)
			}
			f, err := l.(*net.TCPListener).File()
			if err != nil {
				fatal(err)
			}
			cmd := self("serve", "", nil)
			cmd.Stdin = os.Stdin
			cmd.ExtraFiles = []*os.File{f}
			pid := startAndAwait(cmd)
			ready(l.Addr().(*net.TCPAddr).Port, pid)
			untilEOF()
		},
		// first-thread-dead ends its first thread and goes on with the others.
		"first-thread-dead": func(string) {
			ready(os.Getpid())
			go func() { untilEOF(); os.Exit(0) }()
			// This is the first thread: init has locked it.
			_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
		},
		"exhausted":  partExhausted,
		"look":       partLook,
		"rename":     partRename,
		"stop":       partStop,
		"old-kernel": partOldKernel,
		"list-self": func(arg string) {
			found, err := List(context.Background(), Filter{Instance: arg})
			if err != nil {
				fatal(err)
			}
			fmt.Println(len(found))
		},
		"listeners": func(arg string) {
			port, _ := strconv.Atoi(arg)
			found, err := Listeners(context.Background(), port)
			if err != nil || len(found) != 1 {
				fatal(fmt.Errorf("%+v, %w", found, err))
			}
			l := found[0]
			fmt.Printf("pid %d, uid %d, reason %t\n", l.PID, l.UID, l.Reason != "")
		},
		"stop-parent": partStopParent,
		// hopper moves on to a new process, in a session of its own, ever and again.
		"hopper": func(string) {
			ready(os.Getpid())
			hop()
			untilEOF()
		},
		"hop": func(string) {
			fds := []unix.PollFd{{Fd: 0, Events: unix.POLLIN}}
			if n, _ := unix.Poll(fds, 0); n == 0 {
				hop()
			}
		},
		"self": func(string) {
			_ = os.Unsetenv(marker.Host)
			id, err := SelfMarker()
			if err != nil {
				fatal(err)
			}
			fmt.Println(id)
		},
		"foreign-proc": func(string) {
			_, birthErr := Self()
			_, listErr := List(context.Background(), Filter{Installation: "x"})
			fmt.Println(birthErr != nil, listErr != nil)
		},
		// spawner starts children, marked as a host's, without a pause.
		"spawner": func(string) {
			ready(os.Getpid())
			go func() {
				id, _ := SelfMarker()
				id = marker.Identity{Kind: marker.KindMCP, Service: "s", Installation: id.Installation, Instance: os.Getenv("SPAWNED_INSTANCE")}
				for {
					cmd := exec.Command("/bin/true")
					cmd.Env = append(marker.Scrub(withoutPart()), id.Environ()...)
					_ = cmd.Run()
				}
			}()
			untilEOF()
		},
	}
}

func init() {
	if os.Getenv(helperEnv) == "first-thread-dead" {
		runtime.LockOSThread()
	}
}

func TestMain(m *testing.M) {
	if part := os.Getenv(helperEnv); part != "" {
		play, ok := parts[part]
		if !ok {
			fatal(fmt.Errorf("no part %q", part))
		}
		play(os.Getenv(helperArg))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "helper:", err)
	os.Exit(3)
}

func ready(numbers ...int) {
	fmt.Print("ready")
	for _, n := range numbers {
		fmt.Print(" ", n)
	}
	fmt.Println()
}

// listenAnywhere listens on a free port of the loopback, for good.
func listenAnywhere() (port int, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, nil
}

func hop() {
	cmd := self("hop", "", nil)
	cmd.Stdin = os.Stdin
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		fatal(err)
	}
}

func untilEOF() { _, _ = io.Copy(io.Discard, os.Stdin) }

// self returns the test binary's command in another part, with env or, if that
// is nil, the environment of the caller.
func self(part, arg string, env []string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	if env == nil {
		env = os.Environ()
	}
	cmd.Env = append(slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		return strings.HasPrefix(entry, helperEnv+"=") || strings.HasPrefix(entry, helperArg+"=")
	}), helperEnv+"="+part, helperArg+"="+arg)
	cmd.Stderr = os.Stderr
	return cmd
}

func withoutPart() []string {
	return slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, helperEnv+"=") })
}

// startChild starts a helper's child that shares its standard input, and
// returns its pid when it is ready.
func startChild(part string, env []string) int {
	cmd := self(part, "", env)
	cmd.Stdin = os.Stdin
	return startAndAwait(cmd)
}

func startAndAwait(cmd *exec.Cmd) int {
	out, err := cmd.StdoutPipe()
	if err != nil {
		fatal(err)
	}
	if err := cmd.Start(); err != nil {
		fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		fatal(err)
	}
	return cmd.Process.Pid
}

// partExecLoop executes itself anew, without a pause, until its standard input
// ends.
func partExecLoop(arg string) {
	round, _ := strconv.Atoi(arg)
	if round == 0 {
		ready(os.Getpid())
	}
	fds := []unix.PollFd{{Fd: 0, Events: unix.POLLIN}}
	if n, _ := unix.Poll(fds, 0); n > 0 {
		return
	}
	cmd := self("exec-loop", strconv.Itoa(round+1), nil)
	fatal(unix.Exec("/proc/self/exe", []string{"exec-loop"}, cmd.Env))
}

// overwriteEnviron writes over the environment block in the process's memory,
// as programs do that set their title.
func overwriteEnviron() {
	line, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		fatal(err)
	}
	st, err := parseStat(line)
	if err != nil || st.envEnd <= st.envStart {
		fatal(fmt.Errorf("no bounds of the environment: %v", err))
	}
	mem, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		fatal(err)
	}
	title := []byte(strings.Repeat("worker: idle ", 100))
	block := make([]byte, st.envEnd-st.envStart)
	copy(block[:len(block)/2], title)
	if _, err := mem.WriteAt(block, int64(st.envStart)); err != nil {
		fatal(err)
	}
	_ = mem.Close()
}

// helper is a helper process as its test sees it.
type helper struct {
	t       *testing.T
	cmd     *exec.Cmd
	stdin   io.Closer
	out     *bufio.Reader
	numbers []int // what it said that it is ready with
	reaped  bool
	pidfd   int
}

type option func(*exec.Cmd)

func withMarker(id marker.Identity) option {
	return func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, id.Environ()...) }
}

func withEnv(entries ...string) option {
	return func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, entries...) }
}

func withUID(uid uint32) option {
	return func(cmd *exec.Cmd) { cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid} }
}

func withGroup() option {
	return func(cmd *exec.Cmd) { cmd.SysProcAttr.Setpgid = true }
}

// start starts a helper process, which ends with the test.
func start(t *testing.T, part, arg string, options ...option) *helper {
	t.Helper()
	h := &helper{t: t, cmd: self(part, arg, marker.Scrub(os.Environ())), pidfd: -1}
	h.cmd.SysProcAttr = &syscall.SysProcAttr{PidFD: &h.pidfd}
	for _, o := range options {
		o(h.cmd)
	}
	// Pipes of our own, as Cmd.Wait would close its end under the reader, and
	// wait for descendants that hold the other one.
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	h.cmd.Stdin, h.cmd.Stdout, h.stdin = inR, outW, inW
	h.out = bufio.NewReader(outR)
	err = h.cmd.Start()
	_, _ = inR.Close(), outW.Close()
	if err != nil {
		_, _ = inW.Close(), outR.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = inW.Close()
		h.kill()
		_ = outR.Close()
		if h.pidfd >= 0 {
			_ = unix.Close(h.pidfd)
		}
	})
	h.numbers = h.next()
	return h
}

// next reads the next line "ready ...".
func (h *helper) next() []int {
	h.t.Helper()
	line, err := h.out.ReadString('\n')
	if err != nil {
		h.t.Fatalf("helper said %q: %v", line, err)
	}
	rest, ok := strings.CutPrefix(line, "ready")
	if !ok {
		h.t.Fatalf("helper said %q", line)
	}
	var numbers []int
	for _, field := range strings.Fields(rest) {
		n, err := strconv.Atoi(field)
		if err != nil {
			h.t.Fatalf("helper said %q", line)
		}
		numbers = append(numbers, n)
	}
	return numbers
}

func (h *helper) pid() int { return h.cmd.Process.Pid }

// held returns the process of the pidfd that came with the start.
func (h *helper) held() *Process {
	h.t.Helper()
	if h.pidfd < 0 {
		h.t.Skip("the kernel gives no pidfd at the start")
	}
	p, err := FromPidfd(h.pid(), h.pidfd)
	if err != nil {
		h.t.Fatal(err)
	}
	h.pidfd = -1
	h.t.Cleanup(func() { _ = p.Close() })
	return p
}

// kill ends and reaps the helper.
func (h *helper) kill() {
	if !h.reaped {
		h.reaped = true
		_ = h.cmd.Process.Kill()
		_ = h.cmd.Wait()
	}
}

// await reaps the helper after it has ended by itself.
func (h *helper) await() {
	h.reaped = true
	_ = h.cmd.Wait()
}

// open opens a process for the time of the test.
func open(t *testing.T, pid int) *Process {
	t.Helper()
	p, err := Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to start processes of another user")
	}
}
