//go:build linux || darwin || freebsd

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
	"slices"
	"strconv"
	"strings"
	"sync"
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
// input, which all of its descendants share: none outlives the test. What only
// one system can do is in systemParts.
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
		"exec-loop": partExecLoop,
		"zombie": func(string) {
			child := exec.Command("true")
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
		"look": partLook,
		"stop": partStop,
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
		// spawner starts children, marked as a host's, without a pause.
		"spawner": func(string) {
			ready(os.Getpid())
			go func() {
				id, _ := SelfMarker()
				id = marker.Identity{Kind: marker.KindMCP, Service: "s", Installation: id.Installation, Instance: os.Getenv("SPAWNED_INSTANCE")}
				for {
					cmd := exec.Command("true")
					cmd.Env = append(marker.Scrub(withoutPart()), id.Environ()...)
					_ = cmd.Run()
				}
			}()
			untilEOF()
		},
	}
}

func TestMain(m *testing.M) {
	if part := os.Getenv(helperEnv); part != "" {
		play, ok := parts[part]
		if !ok {
			play, ok = systemParts[part]
		}
		if !ok {
			fatal(fmt.Errorf("no part %q", part))
		}
		play(os.Getenv(helperArg))
		os.Exit(0)
	}
	code := m.Run()
	tidy()
	os.Exit(code)
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
	cmd := exec.Command(selfExe)
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
	fatal(unix.Exec(selfExe, []string{"exec-loop"}, cmd.Env))
}

// helper is a helper process as its test sees it.
type helper struct {
	t       testing.TB
	cmd     *exec.Cmd
	stdin   *os.File
	out     *bufio.Reader
	numbers []int // what it said that it is ready with
	reaped  bool
	pidfd   int // -1 where there is none
	end     func()
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

func withGroupOf(leader int) option {
	return func(cmd *exec.Cmd) { cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pgid = true, leader }
}

// start starts a helper process, which ends with the test.
func start(t testing.TB, part, arg string, options ...option) *helper {
	t.Helper()
	return launch(t, self(part, arg, marker.Scrub(os.Environ())), options...)
}

// startShell starts a helper process that is a shell, which costs little. It
// says "ready" as the others do, and has to end at the end of its input.
func startShell(t testing.TB, script string, options ...option) *helper {
	t.Helper()
	return launch(t, shell(script), options...)
}

func shell(script string) *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Env = marker.Scrub(withoutPart())
	cmd.Stderr = os.Stderr
	return cmd
}

func launch(t testing.TB, cmd *exec.Cmd, options ...option) *helper {
	t.Helper()
	h := &helper{t: t, cmd: cmd, pidfd: -1}
	h.cmd.SysProcAttr = h.attributes()
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
	h.end = sync.OnceFunc(func() {
		_ = inW.Close()
		h.kill()
		_ = outR.Close()
		if h.pidfd >= 0 {
			_ = unix.Close(h.pidfd)
		}
	})
	t.Cleanup(h.end)
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

// say writes a line to the helper.
func (h *helper) say(line string) {
	h.t.Helper()
	if _, err := h.stdin.WriteString(line + "\n"); err != nil {
		h.t.Fatal(err)
	}
}

func (h *helper) pid() int { return h.cmd.Process.Pid }

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
func open(t testing.TB, pid int) *Process {
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
