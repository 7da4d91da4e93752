package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/plughost/plughost/probes"
	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/bridge"
	"github.com/plughost/plughost/shared/lastwords"
	"github.com/plughost/plughost/shared/marker"
	"github.com/plughost/plughost/shared/wire"
)

const (
	// inputGrace is how long a server has to end after its input did, before
	// it is sent a signal: most do so at once.
	inputGrace = 2 * time.Second
	// signalGrace is how long it has after that, where nothing else is known.
	signalGrace = 3 * time.Second
	// killTime is kept of a stop's time for the last search.
	killTime = 500 * time.Millisecond
	// pipeGrace is how long after a server's exit its pipes are still waited for when
	// a process that it left behind holds them.
	pipeGrace = 250 * time.Millisecond
)

// launcher starts processes of one server.
type launcher struct {
	target bridge.Target
	stderr io.Writer
	log    *log.Logger
	spawn  *spawner
}

// process is a server on standard input and output, with all that it started.
type process struct {
	log      *log.Logger
	cmd      *exec.Cmd
	held     *probes.Process
	birth    probes.Birth
	input    chan []byte
	endInput func()        // has the server read the end of its input
	inputEnd chan struct{} // closed by it

	exited  chan struct{} // closed once it was reaped
	waitErr error         // what reaping said; set before exited is closed
	drained chan struct{} // closed once all that it wrote was read
}

// start starts a process and calls handle with each message that it sends, one
// after the other.
func (l launcher) start(handle func(wire.Message)) (*process, error) {
	var pipes [3]struct{ r, w *os.File }
	for i := range pipes {
		var err error
		if pipes[i].r, pipes[i].w, err = os.Pipe(); err != nil {
			closeAll(pipes[0].r, pipes[0].w, pipes[1].r, pipes[1].w)
			return nil, fmt.Errorf("cannot make the server's pipes: %w", err)
		}
	}
	stdin, stdout, stderr := pipes[0], pipes[1], pipes[2]
	p := &process{
		log: l.log,
		cmd: &exec.Cmd{
			Path: l.target.Path, Args: l.target.Args, Env: shared.ChildEnvironment(),
			Stdin: stdin.r, Stdout: stdout.w, Stderr: stderr.w, SysProcAttr: attributes(),
		},
		input:    make(chan []byte),
		inputEnd: make(chan struct{}),
		exited:   make(chan struct{}),
		drained:  make(chan struct{}),
	}
	p.endInput = sync.OnceFunc(func() { close(p.inputEnd) })
	err := l.spawn.start(p.cmd)
	closeAll(stdin.r, stdout.w, stderr.w)
	if err != nil {
		closeAll(stdin.w, stdout.r, stderr.r)
		return nil, notStarted(err)
	}
	holdErr := p.hold()
	var pumps sync.WaitGroup
	pumps.Go(func() { p.read(newLines(lastwords.Reader(stdout.r)), handle) })
	pumps.Go(func() { _, _ = io.Copy(l.stderr, lastwords.Reader(stderr.r)) })
	go p.write(stdin.w)
	go p.reap(&pumps, stdout.r, stderr.r)
	if holdErr != nil {
		p.kill()
		<-p.exited
		return nil, holdErr
	}
	return p, nil
}

// notStarted says why there is no process. What is missing, or no program, is no
// better at the next try.
func notStarted(err error) error {
	err = fmt.Errorf("cannot start the server: %w", err)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOEXEC) {
		return &shared.ExitError{Status: exitConfig, Err: err}
	}
	return err
}

// hold holds the process before it can be reaped.
func (p *process) hold() (err error) {
	if p.held, err = probes.Open(p.cmd.Process.Pid); err != nil {
		return fmt.Errorf("cannot hold the server's process %d: %w", p.cmd.Process.Pid, err)
	}
	if p.birth, err = p.held.Birth(); err != nil {
		return errors.Join(fmt.Errorf("cannot read the birth record of process %d: %w", p.cmd.Process.Pid, err), p.held.Close())
	}
	return nil
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close() // of nil: an error that says so, no panic
	}
}

// reap waits for the process alone: one that it left behind may hold its pipes
// for ever.
func (p *process) reap(pumps *sync.WaitGroup, pipes ...*os.File) {
	p.waitErr = p.cmd.Wait()
	close(p.exited)
	p.endInput()
	deadline := time.Now().Add(pipeGrace)
	for _, pipe := range pipes {
		_ = pipe.SetReadDeadline(deadline)
	}
	pumps.Wait()
	closeAll(pipes...)
	close(p.drained)
}

// read hands over the messages on standard output, and logs all else that is
// there. For an answer that is too long it hands over that it failed.
func (p *process) read(stdout *lines, handle func(wire.Message)) {
	for {
		line, err := stdout.next()
		var long *longLineError
		switch {
		case errors.As(err, &long):
			p.log.Printf("[ERROR] skipped on standard output: %v: %s", err, line)
			id := answeredAtLength(line, long.end)
			if m, err := wire.Scan(failure(id, codeUnavailable, err.Error())); id != nil && err == nil {
				handle(m)
			}
			continue
		case err != nil:
			return
		case len(line) == 0:
			continue
		}
		m, err := wire.Scan(line)
		if err != nil {
			p.log.Printf("[WARN] skipped on standard output, since it is no message: %s", shown(line))
			continue
		}
		handle(m)
	}
}

// write is the one that writes to standard input. It ends with the input, or
// with the process that reads it.
func (p *process) write(stdin *os.File) {
	defer stdin.Close()
	go func() {
		// A write to a server that does not read goes on until then.
		<-p.inputEnd
		_ = stdin.SetWriteDeadline(time.Now())
	}()
	for {
		select {
		case <-p.inputEnd:
			return
		case line := <-p.input:
			if _, err := stdin.Write(line); err != nil {
				p.endInput()
				return
			}
		}
	}
}

var errServerEnded = errors.New("the server has ended")

// send passes a message on to the server, once it has taken those before it.
func (p *process) send(ctx context.Context, message []byte) error {
	line := append(slices.Clip(wire.Line(message)), '\n')
	select {
	case p.input <- line:
		return nil
	case <-p.inputEnd:
		return errServerEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stop ends the process with all that it started: its input ends, then its
// group gets SIGTERM, and then SIGKILL, all by the end of ctx. What carries
// identity is ended with it; without one that is only the group.
func (p *process) stop(ctx context.Context, identity marker.Identity) error {
	p.endInput()
	polite, cancel := context.WithTimeout(ctx, inputGrace)
	defer cancel()
	if deadline, ok := ctx.Deadline(); ok {
		// A short grace is shared with the signal.
		polite, cancel = context.WithTimeout(polite, time.Until(deadline)/3)
		defer cancel()
	}
	select {
	case <-p.exited:
	case <-polite.Done():
	}
	grace := signalGrace
	if deadline, ok := ctx.Deadline(); ok {
		grace = min(grace, max(0, time.Until(deadline)-killTime))
	}
	_, err := probes.StopHeld(ctx, p.held, probes.Record{
		PID:      p.cmd.Process.Pid,
		Birth:    p.birth,
		Identity: identity,
		Group:    true,
	}, grace)
	if err != nil {
		return fmt.Errorf("cannot end the server: %w", err)
	}
	<-p.drained
	return nil
}

// kill ends the process alone, and at once.
func (p *process) kill() { _ = p.cmd.Process.Kill() } // it may have ended

// exitConfig is EX_CONFIG of sysexits.h. The host does not try again after it.
const exitConfig = 78

// end says how a process ended that nobody stopped, with the exit status that
// the plugin has for it: the server's own, and as in a shell for a signal.
func (p *process) end() *shared.ExitError {
	err := &shared.ExitError{Err: fmt.Errorf("%w by itself: %w", errServerEnded, p.waitErr)}
	var exit *exec.ExitError
	switch {
	case p.waitErr == nil:
		err.Err = fmt.Errorf("%w by itself: exit status 0", errServerEnded)
	case errors.As(p.waitErr, &exit):
		err.Status = exitStatus(exit)
	default:
		err.Status = 1
	}
	return err
}
