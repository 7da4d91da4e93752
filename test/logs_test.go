//go:build unix

package test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// onlooker is a command line that goes on until the host ends.
type onlooker struct {
	t      *testing.T
	cmd    *exec.Cmd
	output *output
	errors strings.Builder
	read   chan struct{} // closed at the end of its output
}

// lookOn starts a command line that follows something.
func (h *host) lookOn(t *testing.T, args ...string) *onlooker {
	t.Helper()
	o := &onlooker{t: t, output: newOutput(), read: make(chan struct{})}
	o.cmd = exec.Command(filepath.Join(binaries, "plughost"), append(args, "--state-dir", h.stateDir)...)
	o.cmd.Stderr = &o.errors
	stdout, err := o.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := o.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(o.read)
		o.output.read(stdout)
	}()
	t.Cleanup(func() {
		if o.cmd.ProcessState == nil {
			_ = o.cmd.Process.Kill()
			<-o.read
			_ = o.cmd.Wait()
		}
	})
	return o
}

// sees waits until it has printed text.
func (o *onlooker) sees(text string) {
	o.t.Helper()
	select {
	case <-o.output.seen(text):
	case <-o.read:
		if !strings.Contains(o.output.String(), text) {
			o.t.Fatalf("it ended before it printed %q: %s", text, o.output)
		}
	case <-time.After(patience):
		o.t.Fatalf("it does not print %q, but %s", text, o.output)
	}
}

// ends waits for its end, which must be a good one since the host has ended.
func (o *onlooker) ends() {
	o.t.Helper()
	select {
	case <-o.read:
	case <-time.After(patience):
		o.t.Fatal("it does not end with the host")
	}
	if err := o.cmd.Wait(); err != nil || !strings.Contains(o.errors.String(), "the host has ended") {
		o.t.Errorf("it ends with %v and says %q", err, &o.errors)
	}
}

// numbered are so many lines from first on that a plugin writes.
func numbered(first, n int) []byte {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", first+i)
	}
	return []byte(b.String())
}

// wantNumbered checks that n lines from first on are in a log as it was
// printed in JSON, each once and in order.
func wantNumbered(t *testing.T, printed string, first, n int) {
	t.Helper()
	next := first
	for line := range strings.Lines(printed) {
		var entry logEntry
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("%v in %.200q", err, line)
		}
		var got int
		if _, err := fmt.Sscanf(entry.Message, "line %d", &got); err != nil || got < first {
			continue
		}
		if got != next {
			t.Fatalf("line %d comes where line %d is due", got, next)
		}
		next++
	}
	if next != first+n {
		t.Errorf("there are %d lines, want %d", next-first, n)
	}
}

// TestLogsAreFollowedOverRotations has somebody follow a log that is rotated
// again and again, and looks at it since a time that is some files ago.
func TestLogsAreFollowedOverRotations(t *testing.T) {
	const batch = 1000
	h := startFaults(t, hostOptions{hostBlock: "  logs {\n    max_size  = \"64KiB\"\n    max_files = 20\n  }\n"}, fault("f", ""))
	h.waitReady()
	session := h.connect(t, "f")
	writeTo(t, session, "stderr", false, numbered(0, batch), 1)
	h.between(t, "f", "stderr", "line 0", fmt.Sprintf("line %d", batch-1))

	follower := h.lookOn(t, "logs", "-f", "--json", "--tail", "1", "f")
	follower.sees(fmt.Sprintf(`"line %d"`, batch-1))
	since := time.Now()
	writeTo(t, session, "stderr", false, numbered(batch, 2*batch), 1)
	follower.sees(fmt.Sprintf(`"line %d"`, 3*batch-1))
	wantNumbered(t, follower.output.String(), batch, 2*batch)

	files, err := filepath.Glob(filepath.Join(h.stateDir, "logs", "mcp.f.jsonl.*"))
	if err != nil || len(files) < 3 {
		t.Errorf("the log was not rotated often enough: %v, %v", files, err)
	}
	stdout, _, _ := plughost(t, "logs", "--json", "--since", since.Format(time.RFC3339Nano), "f", "--state-dir", h.stateDir)
	wantNumbered(t, stdout, batch, 2*batch)
	if strings.Contains(stdout, fmt.Sprintf(`"line %d"`, batch-1)) {
		t.Error("there are lines from before that time")
	}
	if stdout, _, _ := plughost(t, "logs", "--json", "--since", "1h", "--state-dir", h.stateDir); !strings.Contains(stdout, `"line 0"`) {
		t.Error("the first line is not among those of the last hour")
	}
	h.stop()
	follower.sees("stopped: it was stopped")
	follower.ends()
}

// TestLogsOfSeveralServices has one of them say a word and die at once.
func TestLogsOfSeveralServices(t *testing.T) {
	brief := "service \"mcp\" \"brief\" {\n  command = [\"/bin/sh\", \"-c\", \"echo the only word; exit 3\"]\n  restart {\n    policy = \"never\"\n  }\n}\n"
	h := startFaults(t, hostOptions{}, fault("long-name", ""), brief)
	h.waitState("brief", "failed")
	h.waitState("long-name", "ready")
	follower := h.lookOn(t, "logs", "-f", "--since", "1h")
	follower.sees("the only word")
	follower.sees("ready: it answers")

	stdout, stderr, code := plughost(t, "logs", "--state-dir", h.stateDir)
	if code != 0 || strings.Contains(stdout, "\x1b") {
		t.Errorf("it ends with status %d and prints %q %s", code, stdout, stderr)
	}
	var times []string
	for line := range strings.Lines(stdout) {
		service, rest, ok := strings.Cut(line, " | ")
		if !ok || len(service) != len("mcp.long-name") {
			t.Fatalf("the line %q does not begin with its service", line)
		}
		times = append(times, rest[:len("2006-01-02 15:04:05.000")])
	}
	if !slices.IsSorted(times) || len(times) < 5 {
		t.Errorf("the lines are not in the order of their times: %s", stdout)
	}
	if got := h.logged(t, "brief", "stdout"); len(got) != 1 || got[0].Message != "the only word" {
		t.Errorf("its last word is not logged: %v", got)
	}
	if _, stderr, code := plughost(t, "logs", "-f", "nobody", "--state-dir", h.stateDir); code != 1 || !strings.Contains(stderr, `no service "nobody"`) {
		t.Errorf("of a service that there is not it says %q, with status %d", stderr, code)
	}
	h.stop()
	follower.ends()
	if text := follower.output.String(); strings.Count(text, "       the only word\n") != 1 || !strings.Contains(text, "stopped: it was stopped") {
		t.Errorf("the follower saw %s", text)
	}

	// Without a host, what there is.
	stdout, stderr, code = plughost(t, "logs", "-f", "-n", "1", "long-name", "--state-dir", h.stateDir)
	if code != 0 || !strings.Contains(stdout, "stopped: it was stopped") || strings.Count(stdout, "\n") != 1 || !strings.Contains(stderr, "no host is running") {
		t.Errorf("without a host it ends with status %d and prints %q %q", code, stdout, stderr)
	}
	for _, args := range [][]string{{"--since", "yesterday"}, {"--since", "-1m"}, {"--tail", "-1"}} {
		if _, stderr, code := plughost(t, append([]string{"logs", "--state-dir", h.stateDir}, args...)...); code != 2 || !strings.Contains(stderr, args[0]) {
			t.Errorf("logs %s ends with status %d and says %q", strings.Join(args, " "), code, stderr)
		}
	}
}

// TestAFollowerThatDoesNotReadHoldsUpNobody stops a follower's reader while a
// plugin writes more than the log keeps.
func TestAFollowerThatDoesNotReadHoldsUpNobody(t *testing.T) {
	h := startFaults(t, hostOptions{hostBlock: "  logs {\n    max_size  = \"64KiB\"\n    max_files = 2\n  }\n"}, fault("f", ""))
	h.waitReady()
	session := h.connect(t, "f")
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(binaries, "plughost"), "logs", "-f", "--json", "f", "--state-dir", h.stateDir)
	cmd.Stdout = writer // of which nobody reads
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	if _, err := io.ReadFull(reader, make([]byte, 1)); err != nil { // it has begun
		t.Fatal(err)
	}
	line := []byte(strings.Repeat("x", 1000) + "\n")
	writeTo(t, session, "stderr", false, line, 5000) // returns once all is taken
	writeTo(t, session, "stderr", false, []byte("the end\n"), 1)
	h.between(t, "f", "stderr", strings.Repeat("x", 1000), "the end")
	go h.stop()
	content, err := io.ReadAll(reader)
	reader.Close()
	if waitErr := cmd.Wait(); err != nil || waitErr != nil {
		t.Errorf("the follower ends with %v, %v", err, waitErr)
	}
	if text := string(content); !strings.Contains(text, "lines of the log are missing here") || !strings.Contains(text, `"the end"`) {
		t.Errorf("nobody tells the follower what it missed, in %d bytes", len(text))
	}
	h.waitExit()
}
