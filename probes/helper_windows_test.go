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
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/windows"

	"github.com/plughost/plughost/shared/marker"
)

// helperEnv names the part that the test binary plays when it is executed as a
// helper process; helperArg is the part's argument.
const (
	helperEnv = "PROBES_TEST_PART"
	helperArg = "PROBES_TEST_ARG"
)

// parts are what a helper process can do. Each says "ready" and some numbers
// on a line of its standard output, and ends at the end of its standard input,
// which all of its descendants share: none outlives the test.
var parts map[string]func(arg string)

func init() {
	parts = map[string]func(arg string){
		"serve": func(string) {
			ready(os.Getpid())
			untilEOF()
		},
		// polite ends with 7 at a Ctrl-Break, stubborn does not.
		"polite": func(string) {
			asked := make(chan os.Signal, 1)
			signal.Notify(asked, os.Interrupt)
			ready(os.Getpid())
			go func() {
				<-asked
				os.Exit(7)
			}()
			untilEOF()
		},
		"stubborn": func(string) {
			// signal.Ignore would leave it to the system, which ends it.
			signal.Notify(make(chan os.Signal, 1), os.Interrupt)
			ready(os.Getpid())
			untilEOF()
		},
		// exit ends with the code that arg is, after a line of input.
		"exit": func(arg string) {
			code, _ := strconv.Atoi(arg)
			ready(os.Getpid())
			_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
			os.Exit(code)
		},
		// change removes its marker after a line of input, and says so.
		"change": func(string) {
			ready(os.Getpid())
			input := bufio.NewReader(os.Stdin)
			_, _ = input.ReadString('\n')
			for _, name := range marker.Names() {
				_ = os.Unsetenv(name)
			}
			ready()
			_, _ = io.Copy(io.Discard, input)
		},
		// leader starts the part that arg names, and says its pid.
		"leader": func(arg string) {
			ready(startChild(arg, nil))
			untilEOF()
		},
		// scrubbing does so without a marker.
		"scrubbing": func(arg string) {
			ready(startChild(arg, marker.Scrub(os.Environ())))
			untilEOF()
		},
		// middle does so, and ends.
		"middle": func(arg string) { ready(startChild(arg, nil)) },
		// orphan leaves a marked process behind that nobody created who lives.
		"orphan": func(arg string) {
			ready(startChild("middle", append(os.Environ(), helperArg+"="+arg)))
			untilEOF()
		},
		"once": func(string) {},
		"breeder": func(string) {
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
		"listen": func(arg string) {
			l, err := net.Listen("tcp", arg)
			if err != nil {
				fatal(err)
			}
			ready(l.Addr().(*net.TCPAddr).Port)
			untilEOF()
			_ = l.Close()
		},
		// child asks what its parent's family has to say to it.
		"child": func(string) {
			parent, err := Open(os.Getppid())
			if err != nil {
				fatal(err)
			}
			fmt.Fprintln(os.Stderr, parent.SignalGroup(0))
			ready(os.Getpid())
			untilEOF()
		},
		"self-marker": func(string) {
			id := marker.Identity{Kind: marker.KindHost, Installation: "late"}
			for _, name := range marker.Names() {
				_ = os.Unsetenv(name)
			}
			for _, entry := range id.Environ() {
				name, value, _ := strings.Cut(entry, "=")
				_ = os.Setenv(name, value)
			}
			if got, err := SelfMarker(); err != nil || got != id {
				fatal(fmt.Errorf("SelfMarker = %v, %w", got, err))
			}
			ready(os.Getpid())
			untilEOF()
		},
		// stopper is on a console, and ends the part that arg names, which it
		// starts as the leader of a console process group. It says how, and
		// the exit code.
		"stopper": func(arg string) {
			id := testIdentity("console-" + arg)
			cmd := self(arg, "", stamped(id))
			cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
			cmd.Stdin = os.Stdin
			pid := startAndAwait(cmd)
			if len(consolePIDs()) < 2 {
				fatal(fmt.Errorf("on the console: %v", consolePIDs()))
			}
			result, err := Stop(context.Background(), Record{PID: pid, Identity: id, Group: true}, time.Second)
			if err != nil || result.Outcome != OutcomeStopped {
				fatal(fmt.Errorf("stop: %+v, %w", result, err))
			}
			_ = cmd.Wait()
			ready(int(result.How), cmd.ProcessState.ExitCode())
			untilEOF()
		},
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
	line := "ready"
	for _, n := range numbers {
		line += " " + strconv.Itoa(n)
	}
	fmt.Println(line)
}

func untilEOF() { _, _ = io.Copy(io.Discard, os.Stdin) }

// self is the test binary in another part; env nil is the caller's.
func self(part, arg string, env []string) *exec.Cmd {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(path)
	if env == nil {
		env = os.Environ()
	}
	cmd.Env = slices.Concat(env, []string{helperEnv + "=" + part})
	if arg != "" {
		cmd.Env = append(cmd.Env, helperArg+"="+arg)
	}
	cmd.Stderr = os.Stderr
	return cmd
}

func startChild(part string, env []string) int {
	cmd := self(part, "", env)
	cmd.Stdin = os.Stdin
	return startAndAwait(cmd)
}

// startAndAwait returns the last number that the new process says.
func startAndAwait(cmd *exec.Cmd) int {
	out, err := cmd.StdoutPipe()
	if err != nil {
		fatal(err)
	}
	if err := cmd.Start(); err != nil {
		fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		fatal(err)
	}
	fields := strings.Fields(line)
	n, err := strconv.Atoi(fields[len(fields)-1])
	if err != nil {
		fatal(err)
	}
	return n
}

func testIdentity(instance string) marker.Identity {
	return marker.Identity{Kind: marker.KindMCP, Service: "clöck", Installation: "inst-1", Instance: instance}
}

// stamped is an environment with a marker.
func stamped(id marker.Identity) []string {
	return append(marker.Scrub(os.Environ()), id.Environ()...)
}

// helper is a process that plays a part.
type helper struct {
	t       *testing.T
	cmd     *exec.Cmd
	in      *os.File
	out     *bufio.Reader
	stderr  *strings.Builder
	numbers []int // that it said first
	reaped  bool
}

// start starts a helper, marked with id unless that is zero.
func start(t *testing.T, id marker.Identity, part, arg string) *helper {
	t.Helper()
	cmd := self(part, arg, stamped(id))
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
	return startCmd(t, cmd)
}

func startCmd(t *testing.T, cmd *exec.Cmd) *helper {
	t.Helper()
	h := &helper{t: t, cmd: cmd, stderr: &strings.Builder{}}
	cmd.Stderr = h.stderr
	// Descendants may outlive the helper and hold its output.
	cmd.WaitDelay = 2 * time.Second
	// Not a pipe of exec.Cmd's, which is closed when the helper is reaped.
	stdin, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	cmd.Stdin, h.in = stdin, in
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h.out = bufio.NewReader(out)
	t.Cleanup(func() {
		_ = h.in.Close()
		h.kill()
	})
	h.numbers = h.next()
	return h
}

// next reads the next line "ready ...".
func (h *helper) next() []int {
	h.t.Helper()
	line, err := h.out.ReadString('\n')
	if err != nil {
		h.kill()
		h.t.Fatalf("helper said %q: %v\n%s", line, err, h.stderr)
	}
	var numbers []int
	for _, field := range strings.Fields(line)[1:] {
		n, err := strconv.Atoi(field)
		if err != nil {
			h.t.Fatalf("helper said %q", line)
		}
		numbers = append(numbers, n)
	}
	return numbers
}

func (h *helper) pid() int { return h.cmd.Process.Pid }

// goOn gives a line of input.
func (h *helper) goOn() {
	h.t.Helper()
	if _, err := io.WriteString(h.in, "\n"); err != nil {
		h.t.Fatal(err)
	}
}

// kill ends and reaps the helper.
func (h *helper) kill() {
	if !h.reaped {
		h.reaped = true
		_ = h.cmd.Process.Kill()
		_ = h.cmd.Wait()
	}
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

// gone fails the test unless the processes exit within seconds.
func gone(t *testing.T, processes ...*Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, p := range processes {
		if err := p.Wait(ctx); err != nil {
			t.Errorf("process %d lives on: %v", p.PID(), err)
		}
	}
}

// unlessWine skips what wine can't do.
func unlessWine(t *testing.T, reason string) {
	t.Helper()
	if version := wineVersion(); version != "" {
		t.Skipf("wine %s %s", version, reason)
	}
}
