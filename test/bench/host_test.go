//go:build linux

package bench

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// host is a host that runs. What it does is known from what it logs, at the
// moment when the line is there.
type host struct {
	b        testing.TB
	cmd      *exec.Cmd
	started  time.Time
	lines    chan line
	stateDir string
	text     strings.Builder
	allReady *line // the first such, when it was read
}

// line is a line of the host's output.
type line struct {
	at      time.Time
	text    string
	state   string // that a service came into
	service string
	pid     int
}

var transition = regexp.MustCompile(`(starting|ready|stopping|stopped|backoff|failed): .*service=(?:mcp|agent)\.(\S+)`)

var pidField = regexp.MustCompile(`\bpid=(\d+)`)

// service is the block of a service that runs a plugin.
func service(name, program, body string) string {
	return fmt.Sprintf("service \"mcp\" %q {\n  command = [%q]\n%s}\n", name, filepath.Join(binaries, program), body)
}

// examples are n services that run the example plugin.
func examples(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(service("s"+strconv.Itoa(i), "mcp-example", ""))
	}
	return b.String()
}

// startHost starts a host with an installation of its own. hostBlock is more
// of the configuration's host block.
func startHost(b testing.TB, services string, hostBlock ...string) *host {
	b.Helper()
	dir, err := os.MkdirTemp("", "plughost-bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	config := filepath.Join(dir, "services.hcl")
	if err := os.WriteFile(config, []byte("host {\n  listen = \"127.0.0.1:0\"\n"+strings.Join(hostBlock, "")+"}\n"+services), 0o600); err != nil {
		b.Fatal(err)
	}
	h := &host{b: b, stateDir: filepath.Join(dir, "state"), lines: make(chan line, 10_000)}
	h.cmd = exec.Command(filepath.Join(binaries, "plughost"), "run", "--config", config, "--state-dir", h.stateDir)
	reader, writer, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	h.cmd.Stdout, h.cmd.Stderr = writer, writer
	h.started = time.Now()
	err = h.cmd.Start()
	writer.Close()
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		defer close(h.lines)
		defer reader.Close()
		scanner := bufio.NewScanner(reader)
		for scanner.Scan() {
			l := line{at: time.Now(), text: scanner.Text()}
			if match := transition.FindStringSubmatch(l.text); match != nil {
				l.state, l.service = match[1], match[2]
			}
			if match := pidField.FindStringSubmatch(l.text); match != nil {
				l.pid, _ = strconv.Atoi(match[1])
			}
			h.lines <- l
		}
	}()
	b.Cleanup(func() {
		if h.cmd.ProcessState == nil {
			_ = h.cmd.Process.Kill()
			_ = h.cmd.Wait()
		}
	})
	return h
}

// wait reads the host's output up to a line that matches.
func (h *host) wait(what string, match func(line) bool) line {
	h.b.Helper()
	deadline := time.After(patience)
	for {
		select {
		case l, ok := <-h.lines:
			if !ok {
				h.b.Fatalf("the host ended before %s:\n%s", what, &h.text)
			}
			fmt.Fprintln(&h.text, l.text)
			if strings.HasPrefix(l.text, allReady) {
				h.allReady = &l
			}
			if match(l) {
				return l
			}
		case <-deadline:
			h.b.Fatalf("waited in vain until %s:\n%s", what, &h.text)
		}
	}
}

// waitState waits until a service is in a state; any service if it is empty.
func (h *host) waitState(name, state string) line {
	h.b.Helper()
	return h.wait(name+" is "+state, func(l line) bool {
		return l.state == state && (name == "" || l.service == name)
	})
}

// allReady begins the line that the host writes when all services are ready. Those
// of its log may come before it or after it.
const allReady = "plughost is ready"

// waitReady waits until all services are ready.
func (h *host) waitReady() line {
	h.b.Helper()
	if h.allReady == nil {
		h.wait("all is ready", func(line) bool { return h.allReady != nil })
	}
	return *h.allReady
}

// waitEndpoint waits until all services are ready, and returns the URL of the
// endpoint that joins them.
func (h *host) waitEndpoint() string {
	h.b.Helper()
	_, url, _ := strings.Cut(h.waitReady().text, "MCP at ")
	url, _, _ = strings.Cut(url, ",")
	return url
}

// stop ends the host and returns how long that took and, by service, how long
// each took to be stopped.
func (h *host) stop() (took time.Duration, each map[string]time.Duration) {
	h.b.Helper()
	each = make(map[string]time.Duration)
	stopping := make(map[string]time.Time)
	start := time.Now()
	if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		h.b.Fatal(err)
	}
	for l := range h.lines {
		switch l.state {
		case "stopping":
			stopping[l.service] = l.at
		case "stopped":
			each[l.service] = l.at.Sub(stopping[l.service])
		}
	}
	err := h.cmd.Wait()
	took = time.Since(start)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		h.b.Fatalf("the host ended with %v", exit)
	}
	return took, each
}

// cli runs a command line.
func (h *host) cli(args ...string) {
	h.b.Helper()
	output, err := exec.Command(filepath.Join(binaries, "plughost"), append(args, "--state-dir", h.stateDir)...).CombinedOutput()
	if err != nil {
		h.b.Fatalf("plughost %s: %v\n%s", strings.Join(args, " "), err, output)
	}
}

// cpu is the processor time that a process has used, of all its threads.
func cpu(b testing.TB, pid int) time.Duration {
	b.Helper()
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	var sum time.Duration
	for _, path := range threads {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		on, _, _ := strings.Cut(string(content), " ")
		ns, err := strconv.ParseInt(on, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(ns)
	}
	return sum
}

// rss is the resident memory of a process, in bytes.
func rss(b testing.TB, pid int) int64 {
	b.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		b.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(content))[1], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
