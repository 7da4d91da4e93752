package launch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin"

	"github.com/plughost/plughost/host/internal/cgroup"
	"github.com/plughost/plughost/probes"
	"github.com/plughost/plughost/shared/lastwords"
)

// pipeGrace is how long after a plugin's exit its pipes are still read when a
// process that it left behind holds them open. What the plugin itself wrote is
// in the pipes by then.
const pipeGrace = 250 * time.Millisecond

// lifelineFD is the descriptor of the lifeline in the child: the first of
// exec.Cmd's ExtraFiles.
const lifelineFD = 3

// runner implements go-plugin's runner.Runner: one plugin process with its
// pipes, its reaper and its lifeline. go-plugin sees only the handshake line
// of it; all other output goes to the service's log, since go-plugin panics on
// some log lines and stops reading at others.
type runner struct {
	spawner      *Spawner
	cmd          *exec.Cmd
	withLifeline bool
	hostDeath    hostDeath
	confinement  Confinement
	image        *image        // what is executed in place of cmd.Path, or nil
	group        *cgroup.Group // what it is started in, or nil
	instanceDir  string
	output       Output
	// spawned records the process before anything else is done with it.
	spawned func(probes.Birth) error

	mu      sync.Mutex
	aborted bool            // no process may be started any more
	killed  bool            // the process was killed by the host before it ended
	process *probes.Process // set by Start
	shaken  handshake

	lifeline *os.File // the write end; nothing is ever written

	handshake  *io.PipeReader // what go-plugin reads as standard output
	handshakeW *io.PipeWriter

	exited  chan struct{} // closed once the process was reaped
	drained chan struct{} // closed once its pipes are at their end
	waitErr error         // what reaping said; set before exited is closed
}

// hostDeath is what the system's own means do to a plugin when the host dies.
type hostDeath int

const (
	deathSpares hostDeath = iota
	deathKills            // whatever the plugin does
	deathAsks             // as a stop does
)

func newRunner() *runner {
	r := &runner{exited: make(chan struct{}), drained: make(chan struct{})}
	r.handshake, r.handshakeW = io.Pipe()
	return r
}

// Start spawns the process. go-plugin cancels ctx as soon as the handshake is
// over, so the process must not depend on it.
func (r *runner) Start(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var files pipes
	defer files.closeChildEnds()
	if err := files.open(r.withLifeline); err != nil {
		files.closeHostEnds()
		return fmt.Errorf("cannot make the plugin's pipes: %w", err)
	}
	r.cmd.Stdin = nil // the null device
	r.cmd.Stdout, r.cmd.Stderr = files.stdoutW, files.stderrW
	if r.withLifeline {
		r.cmd.ExtraFiles = []*os.File{files.lifelineR}
	}
	r.cmd.SysProcAttr = attributes(r.hostDeath)
	if err := r.spawn(); err != nil {
		files.closeHostEnds()
		// The kernel's error is the same for a missing directory, and os/exec
		// names the executable.
		if _, dirErr := os.Stat(r.cmd.Dir); r.cmd.Dir != "" && dirErr != nil {
			err = fmt.Errorf("cannot use the working directory: %w", dirErr)
		}
		return err
	}
	r.lifeline = files.lifelineW

	// The child is not reaped yet, so its pid is its own whatever happened to
	// it, and the process held here is the one that was spawned.
	process, birth, err := hold(r.cmd.Process.Pid)
	if err == nil {
		err = errors.Join(r.own(process), r.spawned(birth), r.image.recheck())
	}
	var pumps sync.WaitGroup
	pumps.Go(func() { r.pumpStdout(files.stdoutR) })
	pumps.Go(func() { r.pump(Stderr, files.stderrR) })
	go r.reap(&pumps, files.stdoutR, files.stderrR)
	if err != nil {
		// Unrecorded or unheld, it must not live. go-plugin does not read
		// what it wrote.
		_ = r.handshake.Close()
		_ = r.cmd.Process.Kill()
		<-r.exited
		return err
	}
	return nil
}

func hold(pid int) (*probes.Process, probes.Birth, error) {
	process, err := probes.Open(pid)
	if err != nil {
		return nil, probes.Birth{}, fmt.Errorf("cannot hold the new process %d: %w", pid, err)
	}
	birth, err := process.Birth()
	if err != nil {
		return nil, probes.Birth{}, errors.Join(fmt.Errorf("cannot read the birth record of the new process %d: %w", pid, err), process.Close())
	}
	return process, birth, nil
}

// reap waits for the process alone, not for its pipes, which a process that it
// left behind may hold open for ever.
func (r *runner) reap(pumps *sync.WaitGroup, pipes ...*os.File) {
	r.waitErr = r.explainExit(r.spawner.Wait(r.cmd))
	close(r.exited)
	r.endPumps(pumps, pipes...)
}

// endPumps has the pipes of a process that has exited read to their end, for a
// short while only.
func (r *runner) endPumps(pumps *sync.WaitGroup, pipes ...*os.File) {
	deadline := time.Now().Add(pipeGrace)
	for _, pipe := range pipes {
		_ = pipe.SetReadDeadline(deadline)
	}
	pumps.Wait()
	for _, pipe := range pipes {
		_ = pipe.Close()
	}
	_ = r.handshakeW.Close()
	close(r.drained)
}

// pump hands on all that comes through a pipe, to its end.
func (r *runner) pump(stream Stream, pipe *os.File) {
	lines := &lineWriter{stream: stream, output: r.output}
	_, _ = bufio.NewReaderSize(lastwords.Reader(pipe), pumpBuffer).WriteTo(lines)
	lines.flush()
}

// pumpStdout gives the first line that can be a handshake to go-plugin, and
// everything before and after it to the log.
func (r *runner) pumpStdout(pipe *os.File) {
	reader := bufio.NewReaderSize(lastwords.Reader(pipe), maxHandshake)
	lines := &lineWriter{stream: Stdout, output: r.output}
	defer lines.flush()
	atStart := true // of a line, not behind a piece of a longer one
	for {
		piece, err := reader.ReadSlice('\n')
		if atStart && err == nil && looksLikeHandshake(piece) {
			r.mu.Lock()
			r.shaken = readHandshake(piece)
			r.mu.Unlock()
			_, _ = r.handshakeW.Write(piece)
			break
		}
		_, _ = lines.Write(piece)
		atStart = err == nil
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
	_, _ = reader.WriteTo(lines)
}

// pumpBuffer is the size of the buffer for standard error.
const pumpBuffer = 8 << 10

// shook is the plugin's handshake, if there was one.
func (r *runner) shook() handshake {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shaken
}

// wasKilled reports whether the host ended the process, and not it itself.
func (r *runner) wasKilled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.killed
}

// maxHandshake is the longest line that is looked at for a handshake: the
// socket's path, a certificate at the most, and some numbers.
const maxHandshake = 16 << 10

// looksLikeHandshake reports whether a line begins like go-plugin's:
// CORE|APP|NETWORK|ADDRESS|..., the first two being numbers.
func looksLikeHandshake(line []byte) bool {
	fields := bytes.Split(bytes.TrimSpace(line), []byte("|"))
	if len(fields) < 4 {
		return false
	}
	for _, field := range fields[:2] {
		if _, err := strconv.Atoi(string(field)); err != nil {
			return false
		}
	}
	return true
}

// Wait returns when the process was reaped.
func (r *runner) Wait(ctx context.Context) error {
	select {
	case <-r.exited:
		return r.waitErr
	case <-ctx.Done():
		return ctx.Err()
	}
}

// own makes the process the runner's, unless the start was aborted meanwhile.
func (r *runner) own(process *probes.Process) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process = process
	if r.aborted {
		return errors.New("the start was aborted")
	}
	return nil
}

// held is the process, or nil if none was started.
func (r *runner) held() *probes.Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.process
}

// abort ends a start, whatever go-plugin is waiting for.
func (r *runner) abort() {
	r.mu.Lock()
	r.aborted = true
	r.mu.Unlock()
	_ = r.Kill(context.Background())
}

// Kill sends SIGKILL to the process group, or does nothing if it is gone. It
// may be called at any time and any number of times.
func (r *runner) Kill(context.Context) error {
	process := r.held()
	if process == nil {
		return nil
	}
	r.mu.Lock()
	r.killed = r.killed || !process.Exited()
	r.mu.Unlock()
	err := process.SignalGroup(syscall.SIGKILL)
	if errors.Is(err, probes.ErrNotLeader) || errors.Is(err, errors.ErrUnsupported) {
		err = process.Signal(syscall.SIGKILL)
	}
	if errors.Is(err, probes.ErrGone) {
		return nil
	}
	return err
}

// Stdout is where go-plugin finds the handshake.
func (r *runner) Stdout() io.ReadCloser { return r.handshake }

// Stderr is at its end: go-plugin does not parse a plugin's log here, nor keep
// a buffer for it.
func (r *runner) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name is for go-plugin's messages.
func (r *runner) Name() string { return r.cmd.Path }

// ID is never empty: go-plugin would not clean up.
func (r *runner) ID() string { return r.instanceDir }

// Diagnose adds nothing: Launch explains a failed start itself.
func (r *runner) Diagnose(context.Context) string { return "" }

// PluginToHost accepts only a socket in the instance's own directory, so that
// a plugin cannot point the host at somebody else's.
func (r *runner) PluginToHost(network, address string) (string, string, error) {
	if network == "unix" && filepath.IsAbs(address) && within(r.instanceDir, filepath.Clean(address)) {
		return network, address, nil
	}
	if network == "tcp" && loopbackOnly {
		return network, address, nil
	}
	return "", "", fmt.Errorf("the plugin answers at %s %q, which is not in its directory %s: it must listen where %s says",
		network, address, r.instanceDir, plugin.EnvUnixSocketDir)
}

// HostToPlugin translates nothing: plugins run beside the host.
func (r *runner) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// pipes are the ends of a plugin's pipes in the host and in the child.
type pipes struct {
	stdoutR, stdoutW, stderrR, stderrW, lifelineR, lifelineW *os.File
}

func (p *pipes) open(lifeline bool) (err error) {
	if p.stdoutR, p.stdoutW, err = os.Pipe(); err != nil {
		return err
	}
	if p.stderrR, p.stderrW, err = os.Pipe(); err != nil {
		return err
	}
	if lifeline {
		p.lifelineR, p.lifelineW, err = os.Pipe()
	}
	return err
}

func (p *pipes) closeChildEnds() {
	for _, f := range []*os.File{p.stdoutW, p.stderrW, p.lifelineR} {
		_ = f.Close() // of nil: an error that says so, no panic
	}
}

func (p *pipes) closeHostEnds() {
	for _, f := range []*os.File{p.stdoutR, p.stderrR, p.lifelineW} {
		_ = f.Close()
	}
}
