//go:build unix

// Package test runs the built binaries as their users do: real processes, real
// sockets, real signals.
//
// A test's time goes by in waiting, so tests run side by side: each begins with
// t.Parallel(), and so does each of its subtests that starts a host of its own.
// It has its own state directory (newStateDir) and its own ports (freePorts),
// and looks only at processes of its own installation. How many run at once is
// bounded by TestMain. When all are over, nothing of any may be left.
package test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/probes"
	"github.com/plughost/plughost/test/freeport"
)

// patience bounds waits for what must happen. It is no measure of speed: the
// machine may be busy, and the binaries are built with the race detector when
// the tests are.
const patience = 60 * time.Second

// envBinaries hands the built binaries to a test that runs itself again.
const envBinaries = "PLUGHOST_TEST_BINARIES"

// binaries is the directory of the built binaries, set by TestMain.
var binaries string

// envRace has the options of the race detector.
const envRace = "GORACE"

// atOnce is how many tests run side by side, unless -parallel says otherwise.
// Each waits for processes more than it computes, but these must become ready
// in their time.
func atOnce() int { return max(4, 2*runtime.GOMAXPROCS(0)) }

func TestMain(m *testing.M) {
	if runHelper() {
		return
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	base, err := os.MkdirTemp("", "plughost-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(base)
	if binaries = os.Getenv(envBinaries); binaries == "" {
		binaries = filepath.Join(base, "bin")
		if err := build(binaries); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	// Everything that the tests and what they start put into temporary
	// directories comes to lie here, where it can be seen.
	scratch := filepath.Join(base, "tmp")
	if err := os.Mkdir(scratch, 0o700); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := os.Setenv("TMPDIR", scratch); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// The race detector has every program sleep for a second before it exits.
	if err := os.Setenv(envRace, strings.TrimSpace(os.Getenv(envRace)+" atexit_sleep_ms=0")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	flag.Parse()
	bounded := false
	flag.Visit(func(f *flag.Flag) { bounded = bounded || f.Name == "test.parallel" })
	if !bounded {
		if err := flag.Set("test.parallel", strconv.Itoa(atOnce())); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	code := m.Run()
	for _, leftover := range leftovers(scratch) {
		fmt.Fprintln(os.Stderr, "left behind by the tests:", leftover)
		code = 1
	}
	return code
}

// build builds every binary that the tests run.
func build(dir string) error {
	args := []string{"build", "-ldflags=-w", "-o", dir + "/"}
	packages := []string{"../host", "../plugins/mcp-example", "../plugins/agent-example", "../plugins/mcp-bridge", "../plugins/agent-bridge", "./faultplugin"}
	if raceEnabled {
		// Grandchildren only live and die, and they are many.
		grandchild := exec.Command("go", append(args, "./faultplugin")...)
		if err := runBuild(grandchild); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(dir, "faultplugin"), filepath.Join(dir, "grandchild")); err != nil {
			return err
		}
		args = append(args, "-race")
	}
	if err := runBuild(exec.Command("go", append(args, packages...)...)); err != nil {
		return err
	}
	return os.Rename(filepath.Join(dir, "host"), filepath.Join(dir, "plughost"))
}

func runBuild(cmd *exec.Cmd) error {
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, output)
	}
	return nil
}

// leftovers are the processes that run one of our binaries, and the files in
// the directory for temporary files, when all tests are over.
func leftovers(scratch string) []string {
	var found []string
	executables, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range executables {
		if path, err := os.Readlink(link); err == nil && strings.HasPrefix(path, binaries+"/") {
			found = append(found, "process "+filepath.Base(filepath.Dir(link))+" runs "+path)
		}
	}
	_ = filepath.WalkDir(scratch, func(path string, _ os.DirEntry, err error) error {
		if err == nil && path != scratch {
			found = append(found, "file "+path)
		}
		return nil
	})
	return found
}

// host is a running plughost.
type host struct {
	t        *testing.T
	config   string
	stateDir string
	base     string // URL of the gateway
	cmd      *exec.Cmd
	exited   chan struct{} // closed when the process was reaped
	output   *output
}

// hostOptions say how to start a host.
type hostOptions struct {
	// config is the path of the configuration; gateway the address in it.
	config, gateway string
	// hostBlock is more of the configuration's host block.
	hostBlock string
	// stateDir is a new one if empty.
	stateDir string
	// outliveHost has children not notice the host's death.
	outliveHost bool
	// env is added to the environment, and args to the flags.
	env, args []string
	// inherit are open files that the host inherits.
	inherit []*os.File
	// stderr is where its log goes, if not to where its output does.
	stderr *os.File
	// asInit has the host be the first process of a pid namespace.
	asInit bool
}

// startHost starts a host. It is ended with the test, and everything of its
// installation with it.
func startHost(t *testing.T, opts hostOptions) *host {
	t.Helper()
	if opts.stateDir == "" {
		opts.stateDir = newStateDir(t)
	}
	args := []string{"run", "--config", opts.config, "--state-dir", opts.stateDir}
	args = append(args, opts.args...)
	if opts.outliveHost {
		args = append(args, "--test-outlive-host")
	}
	h := &host{
		t:        t,
		config:   opts.config,
		stateDir: opts.stateDir,
		base:     "http://" + opts.gateway,
		cmd:      exec.Command(filepath.Join(binaries, "plughost"), args...),
		exited:   make(chan struct{}),
		output:   newOutput(),
	}
	if opts.asInit {
		inPIDNamespace(t, h.cmd)
	}
	h.cmd.Env = append(os.Environ(), opts.env...)
	h.cmd.ExtraFiles = opts.inherit
	// A pipe of our own: a grandchild may hold it, and must not hold up Wait.
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	h.cmd.Stdout, h.cmd.Stderr = writer, writer
	if opts.stderr != nil {
		h.cmd.Stderr = opts.stderr
	}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go h.output.read(reader)
	go func() {
		_ = h.cmd.Wait()
		// Behind all that the host has written: who sees its end sees that too.
		_, _ = io.WriteString(writer, endOfOutput)
		writer.Close()
		<-h.output.whole
		close(h.exited)
	}()
	t.Cleanup(func() {
		h.end()
		reader.Close()
		if strings.Contains(h.output.String(), "DATA RACE") {
			t.Error("the race detector found a race in a binary")
		}
		if t.Failed() {
			t.Logf("output of the host:\n%s", h.output)
		}
	})
	return h
}

// newStateDir makes a state directory that is ended with the test: what still
// runs of its installation is killed, by marker.
func newStateDir(t *testing.T) string {
	t.Helper()
	// Short, so that there is room in it for the addresses of sockets: a host
	// that is killed leaves nothing elsewhere then.
	dir, err := os.MkdirTemp("", "state-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		sweep(t, dir)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func sweep(t *testing.T, stateDir string) {
	id, err := os.ReadFile(filepath.Join(stateDir, "installation"))
	if err != nil {
		return // no host was ever started
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	filter := probes.Filter{Installation: strings.TrimSpace(string(id))}
	if _, err := probes.Sweep(ctx, filter, 0); err != nil {
		t.Errorf("cannot end what is left of the installation: %v", err)
	}
	endGroups(t, filter.Installation)
}

// end ends the host as an operator would, if it still runs.
func (h *host) end() {
	select {
	case <-h.exited:
		return
	default:
	}
	_ = h.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-h.exited:
	case <-time.After(patience):
		h.t.Errorf("the host does not end after SIGTERM")
		_ = h.cmd.Process.Kill()
		<-h.exited
	}
}

// stop sends SIGTERM, waits for the end, and checks that it went well.
func (h *host) stop() {
	h.t.Helper()
	h.signal(syscall.SIGTERM)
	h.waitExit()
	if code := h.cmd.ProcessState.ExitCode(); code != 0 {
		h.t.Errorf("after SIGTERM the host ended with %v, want exit status 0", h.cmd.ProcessState)
	}
}

// kill kills the host as a crash would.
func (h *host) kill() {
	h.t.Helper()
	h.signal(syscall.SIGKILL)
	h.waitExit()
}

func (h *host) signal(sig syscall.Signal) {
	h.t.Helper()
	if err := h.cmd.Process.Signal(sig); err != nil {
		h.t.Fatalf("cannot send %v to the host: %v", sig, err)
	}
}

func (h *host) waitExit() {
	h.t.Helper()
	select {
	case <-h.exited:
	case <-time.After(patience):
		h.t.Fatalf("the host does not end; its output:\n%s", h.output)
	}
}

// waitReady waits until all services are ready.
func (h *host) waitReady() {
	h.t.Helper()
	h.waitOutput("plughost is ready")
}

// waitOutput waits until the host has written text.
func (h *host) waitOutput(text string) {
	h.t.Helper()
	select {
	case <-h.output.seen(text):
	case <-h.exited:
		if strings.Contains(h.output.String(), text) {
			return
		}
		h.t.Fatalf("the host ended before it wrote %q; its output:\n%s", text, h.output)
	case <-time.After(patience):
		h.t.Fatalf("the host does not write %q; its output:\n%s", text, h.output)
	}
}

// serviceStatus is what a host says of a service.
type serviceStatus struct {
	Service   struct{ Kind, Name string }
	State     string
	Instance  string
	PID       int
	Port      int
	Restarts  int
	LastError string
}

// status asks the host for the state of all services, by name.
func (h *host) status() map[string]serviceStatus {
	h.t.Helper()
	services := h.tryStatus()
	if services == nil {
		h.t.Fatal("the host does not say how its services are")
	}
	return services
}

// tryStatus returns nil as long as the host does not answer. It asks on the
// control socket what `plughost status --json` asks there: tests ask often.
func (h *host) tryStatus() map[string]serviceStatus {
	h.t.Helper()
	client := http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, "unix", h.controlSocket())
		},
	}}
	response, err := client.Get("http://plughost/v1/status")
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return nil
	}
	if response.StatusCode != http.StatusOK {
		h.t.Fatalf("the host answers %s: %s", response.Status, content)
	}
	return parseStatus(h.t, string(content))
}

// controlSocket is the path of the host's control socket: in the state
// directory, or in /tmp if that has too long a path.
func (h *host) controlSocket() string {
	path := filepath.Join(h.stateDir, "run", "control.sock")
	if _, err := os.Lstat(path); err == nil {
		return path
	}
	id, err := os.ReadFile(filepath.Join(h.stateDir, "installation"))
	if err != nil {
		return path // the host has not made it yet
	}
	short := strings.ReplaceAll(strings.TrimSpace(string(id)), "-", "")
	if elsewhere, _ := filepath.Glob("/tmp/plughost-" + short[:min(16, len(short))] + "*/control.sock"); len(elsewhere) > 0 {
		return elsewhere[0]
	}
	return path
}

func parseStatus(t *testing.T, text string) map[string]serviceStatus {
	t.Helper()
	var answer struct{ Services []serviceStatus }
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatalf("the state of the services: %v in %s", err, text)
	}
	services := make(map[string]serviceStatus)
	for _, s := range answer.Services {
		services[s.Service.Name] = s
	}
	return services
}

// waitState waits until a service is in a state.
func (h *host) waitState(service, state string) serviceStatus {
	h.t.Helper()
	var status serviceStatus
	eventually(h.t, service+" is "+state, func() bool {
		status = h.tryStatus()[service]
		return status.State == state
	})
	return status
}

// plughost runs a command line to its end.
func plughost(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(binaries, "plughost"), args...)
	var out, errOut strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("plughost %s: %v", strings.Join(args, " "), err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// eventually waits for a condition that nothing announces.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// output collects what a process writes, and says when it wrote something.
type output struct {
	mu      sync.Mutex
	text    strings.Builder
	waiting map[string]chan struct{}
	whole   chan struct{} // closed when all is there that the process has written itself
}

func newOutput() *output {
	return &output{waiting: make(map[string]chan struct{}), whole: make(chan struct{})}
}

// endOfOutput is behind what a process has written by its end. What it left behind
// may write more.
const endOfOutput = "\x00the end\n"

func (o *output) read(r io.Reader) {
	whole := sync.OnceFunc(func() { close(o.whole) })
	defer whole()
	reader := bufio.NewReader(r)
	for {
		line, err := reader.ReadString('\n')
		line, last := strings.CutSuffix(line, endOfOutput)
		o.add(line)
		if last {
			whole()
		}
		if err != nil {
			return
		}
	}
}

func (o *output) add(line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.WriteString(line)
	for text, seen := range o.waiting {
		if strings.Contains(line, text) {
			close(seen)
			delete(o.waiting, text)
		}
	}
}

// seen is closed when text was written in one line, before or after now.
func (o *output) seen(text string) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if seen, ok := o.waiting[text]; ok {
		return seen
	}
	seen := make(chan struct{})
	if strings.Contains(o.text.String(), text) {
		close(seen)
		return seen
	}
	o.waiting[text] = seen
	return seen
}

// waitCount waits until the host has written text so many times. What it says of its
// services may come before their log does.
func (h *host) waitCount(text string, n int) {
	h.t.Helper()
	eventually(h.t, fmt.Sprintf("the host has written %q %d times", text, n), func() bool {
		return strings.Count(h.output.String(), text) == n
	})
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// connect opens a session with a service that runs the fault plugin, and waits
// until it is served.
func (h *host) connect(t *testing.T, service string) *mcp.ClientSession {
	t.Helper()
	session := connectMCP(t, h.base+"/mcp/"+service)
	eventually(t, service+" is served", func() bool {
		result, err := session.CallTool(t.Context(), callParams("pid"))
		return err == nil && !result.IsError
	})
	return session
}

// envPorts hands ports to a test that runs itself again.
const envPorts = "PLUGHOST_TEST_PORTS"

// givenPorts counts those of envPorts that tests have got.
var givenPorts atomic.Int32

// freePorts returns ports that are free and that no other test gets.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	given := strings.Fields(os.Getenv(envPorts))
	if len(given) == 0 {
		return freeport.Take(t, n)
	}
	end := int(givenPorts.Add(int32(n)))
	if end > len(given) {
		t.Fatalf("%d ports were given, which are too few", len(given))
	}
	var ports []int
	for _, word := range given[end-n : end] {
		port, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, port)
	}
	return ports
}

// writeConfig writes a configuration into a directory of the test's.
func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "services.hcl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// get reads a URL.
func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	client := http.Client{Timeout: patience}
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

// alive reports whether a process runs; a zombie does not.
func alive(pid int) bool {
	process, err := probes.Open(pid)
	if err != nil {
		return false
	}
	defer process.Close()
	return !process.Exited()
}

// killPID kills a process that belongs to the test.
func killPID(t *testing.T, pid int) {
	t.Helper()
	process, err := probes.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer process.Close()
	if err := process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func installationID(t *testing.T, stateDir string) string {
	t.Helper()
	id, err := os.ReadFile(filepath.Join(stateDir, "installation"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(id))
}

func repositoryRoot(t *testing.T) string {
	t.Helper()
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		t.Fatal("no caller")
	}
	return filepath.Dir(filepath.Dir(file))
}
