//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// host is a host process.
type host struct {
	pid     int
	process *os.Process
	started time.Time
	exited  chan struct{} // closed when it was reaped
	state   *os.ProcessState
	output  *tail

	mu     sync.Mutex
	ending bool // somebody wants it to end
}

// startHost starts a host. limit is how many files it may open; 0 is as many
// as this program.
func (t *tester) startHost(outlive bool, limit int) (*host, error) {
	args := []string{t.plughost, "run", "--config", t.config, "--state-dir", t.stateDir}
	if outlive {
		args = append(args, "--test-outlive-host")
	}
	if limit > 0 {
		// The hard limit: up to that the Go runtime raises the other one.
		args = append([]string{"/bin/sh", "-c", "ulimit -n " + strconv.Itoa(limit) + ` && exec "$@"`, "sh"}, args...)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	h := &host{started: time.Now(), exited: make(chan struct{}), output: &tail{}}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = writer, writer
	h.process, err = t.children.start(func() (*os.Process, error) {
		err := cmd.Start()
		return cmd.Process, err
	})
	writer.Close()
	if err != nil {
		return nil, errors.Join(err, reader.Close())
	}
	h.pid = h.process.Pid
	read := make(chan struct{})
	go func() {
		defer close(read)
		h.read(t, reader)
	}()
	go func() {
		_ = cmd.Wait()
		t.children.forget(h.pid)
		<-read
		h.mu.Lock()
		defer h.mu.Unlock()
		h.state = cmd.ProcessState
		if !h.ending {
			t.violate("the host (pid %d) ended by itself: %v", h.pid, h.state)
		}
		close(h.exited)
	}()
	return h, nil
}

// read reads the host's output, to its end.
func (h *host) read(t *tester, reader *os.File) {
	defer reader.Close()
	lines := bufio.NewReader(reader)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			h.output.add(line)
			t.tail.add(fmt.Sprintf("[%d] %s", h.pid, line))
		}
		for _, bad := range []string{"panic: ", "fatal error: ", "DATA RACE"} {
			if strings.Contains(line, bad) {
				t.violate("the host (pid %d) says: %s", h.pid, strings.TrimSpace(line))
			}
		}
		if err != nil {
			return
		}
	}
}

// expectEnd says that the end of the host is no violation from now on.
func (h *host) expectEnd() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ending = true
}

func (h *host) hasExited() bool {
	select {
	case <-h.exited:
		return true
	default:
		return false
	}
}

// kill kills the host as a crash would, and returns when it is gone.
func (t *tester) kill(h *host) error {
	h.expectEnd()
	if err := h.process.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return t.waitExit(h)
}

func (t *tester) waitExit(h *host) error {
	select {
	case <-h.exited:
		return nil
	case <-time.After(t.patience):
		return fmt.Errorf("the host (pid %d) has not ended within %v", h.pid, t.patience)
	}
}

// stop stops the host as an operator would, and checks that it says the truth.
func (t *tester) stop(h *host) error {
	h.expectEnd()
	if err := h.process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := t.waitExit(h); err != nil {
		return err
	}
	if code := h.state.ExitCode(); code != 0 {
		return fmt.Errorf("after SIGTERM the host (pid %d) ended with %v", h.pid, h.state)
	}
	return t.nothingOf(nil)
}

// cli runs a command line to its end.
func (t *tester) cli(args ...string) (output string, code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), t.patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, t.plughost, append(args, "--state-dir", t.stateDir)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	process, err := t.children.start(func() (*os.Process, error) {
		err := cmd.Start()
		return cmd.Process, err
	})
	if err != nil {
		return "", 0, err
	}
	err = cmd.Wait()
	t.children.forget(process.Pid)
	if ctx.Err() != nil {
		return out.String(), 0, fmt.Errorf("plughost %s does not end within %v: %s", strings.Join(args, " "), t.patience, &out)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return out.String(), 0, err
	}
	return out.String(), cmd.ProcessState.ExitCode(), nil
}

// mustCLI runs a command line that must end well.
func (t *tester) mustCLI(args ...string) error {
	output, code, err := t.cli(args...)
	if err == nil && code != 0 {
		err = fmt.Errorf("plughost %s ended with status %d: %s", strings.Join(args, " "), code, strings.TrimSpace(output))
	}
	return err
}

// status is the part of `plughost status --json` that counts here.
type status struct {
	PID      int
	Services []serviceStatus
}

type serviceStatus struct {
	Service   struct{ Kind, Name string }
	State     string
	Cause     string
	Instance  string
	PID       int
	Port      int
	Restarts  int
	LastError string
}

func (s *status) find(name string) serviceStatus {
	for _, service := range s.Services {
		if service.Service.Name == name {
			return service
		}
	}
	return serviceStatus{}
}

// status asks the command line. The error is why there is no answer.
func (t *tester) status() (*status, error) {
	output, code, err := t.cli("status", "--json")
	if err != nil {
		return nil, err
	}
	if code != 0 {
		return nil, fmt.Errorf("plughost status ended with status %d: %s", code, strings.TrimSpace(output))
	}
	s := &status{}
	if err := json.Unmarshal([]byte(output), s); err != nil {
		return nil, fmt.Errorf("plughost status --json: %w in %s", err, output)
	}
	return s, nil
}

// tail keeps the last lines of something.
type tail struct {
	mu    sync.Mutex
	lines []string
}

const tailLines = 400

func (k *tail) add(line string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lines = append(k.lines, line)
	if len(k.lines) > 2*tailLines {
		k.lines = slices.Clone(k.lines[tailLines:])
	}
}

func (k *tail) write(w io.Writer, n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, line := range k.lines[max(0, len(k.lines)-n):] {
		fmt.Fprint(w, "  ", line)
	}
}

func (k *tail) contains(text string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(k.lines, func(line string) bool { return strings.Contains(line, text) })
}
