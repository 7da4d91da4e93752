//go:build unix

package test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// logEntry is a line of `plughost logs --json`, as far as the tests look.
type logEntry struct {
	Stream, Message string
}

// logged are the entries in a service's log, of one stream.
func (h *host) logged(t *testing.T, service, stream string) []logEntry {
	t.Helper()
	stdout, stderr, code := plughost(t, "logs", "--json", service, "--state-dir", h.stateDir)
	if code != 0 {
		t.Fatalf("plughost logs ended with status %d: %s", code, stderr)
	}
	var entries []logEntry
	for line := range strings.Lines(stdout) {
		var entry logEntry
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("plughost logs --json: %v in %.200q", err, line)
		}
		if entry.Stream == stream {
			entries = append(entries, entry)
		}
	}
	return entries
}

// between waits until a service has logged end, and returns what it logged
// after begin and before it.
func (h *host) between(t *testing.T, service, stream, begin, end string) []logEntry {
	t.Helper()
	var entries []logEntry
	says := func(message string) func(logEntry) bool {
		return func(e logEntry) bool { return e.Message == message }
	}
	eventually(t, fmt.Sprintf("%q of %s is logged", end, stream), func() bool {
		entries = h.logged(t, service, stream)
		return slices.ContainsFunc(entries, says(end))
	})
	first, last := slices.IndexFunc(entries, says(begin)), slices.IndexFunc(entries, says(end))
	if first < 0 || first > last {
		t.Fatalf("%q is not in the log before %q: %v", begin, end, entries)
	}
	return entries[first+1 : last]
}

// unruly are lines that a plugin may write, and what is to be logged as their
// message: the line itself, unless said otherwise.
var unruly = []struct{ line, message string }{
	{line: `{"@message":1}`},
	{line: `{"@message":null}`},
	{line: `{"@message":{"a":[1]}}`},
	{line: `{"@message":["x"],"@level":"info","@timestamp":"2026-01-01T00:00:00.000000Z"}`},
	{line: `{"@message":"odd time","@timestamp":5}`, message: "odd time"},
	{line: `{"@message":"odd level","@level":{}}`, message: "odd level"},
	{line: `{"@message":"unknown level","@level":"loud"}`, message: "unknown level"},
	{line: `{"@level":"info"}`},
	{line: `{}`},
	{line: `{`},
	{line: `}`},
	{line: `{"@message":"cut`},
	{line: `{"@message":"one"}{"@message":"two"}`},
	{line: `{"@message":"twice","@message":2}`},
	{line: `{"@message":"huge","n":1e999999}`, message: "huge"},
	{line: `{"\u0000":"\ud800"}`},
	{line: `[]`},
	{line: `[{"@message":"x"}]`},
	{line: `null`},
	{line: `"text"`},
	{line: `-0`},
	{line: strings.Repeat(`{"a":`, 2500)},
	{line: `{"@message":"deep","a":` + strings.Repeat("[", 6000) + strings.Repeat("]", 6000) + `}`, message: "deep"},
	{line: `{"@message":"too deep","a":` + strings.Repeat("[", 15000)},
	{line: ""},
	{line: " \t "},
	{line: "carriage return\r", message: "carriage return"},
	{line: "carriage\rreturn"},
	{line: "nul \x00 bell \a"},
	{line: "\x1b[2J\x1b]0;title\a"},
	{line: "\xff\xfe\x80 no UTF-8"},
	{line: "\xef\xbb\xbfafter a byte order mark"},
	{line: "line\u2028separator \u202e override"},
	{line: "%s %n %!d(MISSING)"},
	{line: "panic: not really"},
	{line: "goroutine 1 [running]:"},
	{line: "[ERROR] bracketed", message: "bracketed"},
	{line: "[ERROR"},
	{line: "[SHOUT] bracketed"},
	{line: "|"},
	{line: "1|1|unix"},
	{line: "x|y|unix|/tmp/socket|grpc"},
	{line: "Content-Length: 5"},
	{line: `{"jsonrpc":"2.0","id":1,"method":"ping"}`},
}

// unrulyText is all of these lines, between two others.
func unrulyText(begin, end string) []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, begin)
	for _, u := range unruly {
		fmt.Fprintln(&b, u.line)
	}
	fmt.Fprintln(&b, end)
	return b.Bytes()
}

func checkUnruly(t *testing.T, got []logEntry) {
	t.Helper()
	for i, u := range unruly {
		want := u.message
		if want == "" {
			want = strings.ToValidUTF8(u.line, string(utf8.RuneError))
		}
		if i >= len(got) {
			t.Errorf("%.60q and what comes after it is not in the log", want)
			return
		}
		if got[i].Message != want {
			t.Errorf("logged is %.60q, want %.60q", got[i].Message, want)
		}
	}
	if len(got) != len(unruly) {
		t.Errorf("%d lines were logged for %d", len(got), len(unruly))
	}
}

// writeTo has a fault plugin write to its output.
func writeTo(t *testing.T, session *mcp.ClientSession, stream string, library bool, data []byte, times int) {
	t.Helper()
	callTool[struct{}](t, session, "write", map[string]any{
		"stream": stream, "library": library, "base64": base64.StdEncoding.EncodeToString(data), "times": times,
	})
}

var outputs = []struct {
	stream  string
	library bool
}{
	{"stdout", false},
	{"stderr", false},
	{"stdout", true},
	{"stderr", true},
}

func outputName(stream string, library bool) string {
	if library {
		return stream + " of the library"
	}
	return stream + " of the process"
}

func TestUnrulyLinesAreLogged(t *testing.T) {
	t.Parallel()
	early := filepath.Join(t.TempDir(), "early")
	if err := os.WriteFile(early, unrulyText("begin early", "end early"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := startFaults(t, hostOptions{}, fault("f", fmt.Sprintf("\n  env = { FAULT_EARLY = %q }\n", early)))
	h.waitReady()
	before := h.status()["f"]
	for _, stream := range []string{"stdout", "stderr"} {
		t.Run(stream+" before the handshake", func(t *testing.T) {
			checkUnruly(t, h.between(t, "f", stream, "begin early", "end early"))
		})
	}
	session := h.connect(t, "f")
	for _, output := range outputs {
		name := outputName(output.stream, output.library)
		t.Run(name, func(t *testing.T) {
			begin, end := "begin "+name, "end "+name
			writeTo(t, session, output.stream, output.library, unrulyText(begin, end), 1)
			checkUnruly(t, h.between(t, "f", output.stream, begin, end))
		})
	}
	if _, stderr, code := plughost(t, "logs", "f", "--state-dir", h.stateDir); code != 0 {
		t.Errorf("plughost logs ended with status %d: %s", code, stderr)
	}
	if got := callTool[struct{ PID int }](t, session, "pid", map[string]any{}); got.PID != before.PID {
		t.Errorf("the call was served by pid %d, want %d as before", got.PID, before.PID)
	}
	if after := h.status()["f"]; after.State != "ready" || after.Restarts != 0 {
		t.Errorf("after all that the service is %+v, want it untouched", after)
	}
}

// TestLongLineBeforeTheHandshake has a plugin write a line that is long, but not
// too long to be kept together, before its handshake.
func TestLongLineBeforeTheHandshake(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 40<<10)
	early := filepath.Join(t.TempDir(), "early")
	if err := os.WriteFile(early, []byte("begin\n"+long+"\nend\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := startFaults(t, hostOptions{}, fault("f", fmt.Sprintf("\n  env = { FAULT_EARLY = %q }\n", early)))
	h.waitReady()
	for _, stream := range []string{"stdout", "stderr"} {
		if got := h.between(t, "f", stream, "begin", "end"); len(got) != 1 || got[0].Message != long {
			t.Errorf("%s: the line was logged in %d pieces", stream, len(got))
		}
	}
}

// TestHandshakeAtTheEndOfALongLine has a plugin end a long line with what would
// be a handshake if it stood alone.
func TestHandshakeAtTheEndOfALongLine(t *testing.T) {
	t.Parallel()
	early := filepath.Join(t.TempDir(), "early")
	if err := os.WriteFile(early, []byte(strings.Repeat("x", 16<<10)+"1|1|unix|/nowhere|grpc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := startFaults(t, hostOptions{}, fault("f", fmt.Sprintf("\n  env = { FAULT_EARLY = %q }\n  restart {\n    policy = \"never\"\n  }\n", early)))
	var status serviceStatus
	eventually(t, "the start is over", func() bool {
		status = h.tryStatus()["f"]
		return status.State == "ready" || status.State == "failed"
	})
	if status.State != "ready" {
		t.Errorf("the service is %s: %.200s", status.State, status.LastError)
	}
}

func TestEndlessLineIsCut(t *testing.T) {
	t.Parallel()
	const length = 200 << 10
	endless := bytes.Repeat([]byte("x"), length)
	early := filepath.Join(t.TempDir(), "early")
	if err := os.WriteFile(early, slices.Concat([]byte("begin early\n"), endless, []byte("\nend early\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	h := startFaults(t, hostOptions{}, fault("f", fmt.Sprintf("\n  env = { FAULT_EARLY = %q }\n", early)))
	h.waitReady()
	check := func(t *testing.T, stream, begin, end string) {
		t.Helper()
		var sum int
		entries := h.between(t, "f", stream, begin, end)
		for _, entry := range entries {
			sum += strings.Count(entry.Message, "x")
			if len(entry.Message) > 100<<10 {
				t.Errorf("a line of %d bytes was logged in one piece", len(entry.Message))
			}
		}
		if sum != length {
			t.Errorf("%d bytes of the line were logged in %d pieces, want all %d", sum, len(entries), length)
		}
	}
	for _, stream := range []string{"stdout", "stderr"} {
		t.Run(stream+" before the handshake", func(t *testing.T) {
			check(t, stream, "begin early", "end early")
		})
	}
	session := h.connect(t, "f")
	for _, output := range outputs {
		name := outputName(output.stream, output.library)
		t.Run(name, func(t *testing.T) {
			begin, end := "begin "+name, "end "+name
			writeTo(t, session, output.stream, output.library, []byte(begin+"\n"), 1)
			// It returns once all is written: the plugin was not blocked.
			writeTo(t, session, output.stream, output.library, endless, 1)
			callTool[struct{ PID int }](t, session, "pid", map[string]any{})
			writeTo(t, session, output.stream, output.library, []byte("\n"+end+"\n"), 1)
			check(t, output.stream, begin, end)
		})
	}
}

func TestPluginThatClosesItsOutputIsServed(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, fault("f", ""))
	h.waitReady()
	before := h.status()["f"]
	session := h.connect(t, "f")
	callTool[struct{}](t, session, "close", map[string]any{})
	// What the library hands over still comes.
	writeTo(t, session, "stdout", true, []byte("begin\nhere I am\nend\n"), 1)
	if got := h.between(t, "f", "stdout", "begin", "end"); len(got) != 1 || got[0].Message != "here I am" {
		t.Errorf("logged is %v", got)
	}
	if after := h.status()["f"]; after.State != "ready" || after.Instance != before.Instance {
		t.Errorf("the service is %+v, want it untouched", after)
	}
}

// TestLastWordsAreLogged has a plugin write much, and a last line without an
// end, and exit at once; also with a grandchild that holds its output.
func TestLastWordsAreLogged(t *testing.T) {
	t.Parallel()
	const body = "\n  env = { FAULT_GRANDCHILD = %q }\n  restart {\n    policy = \"never\"\n  }\n"
	h := startFaults(t, hostOptions{}, fault("alone", strings.ReplaceAll(body, "%q", `""`)), fault("held", fmt.Sprintf(body, "plain")))
	h.waitReady()
	words := "begin\n" + strings.Repeat(strings.Repeat("x", 100)+"\n", 5000) + "these are the last words"
	for _, name := range []string{"alone", "held"} {
		session := h.connect(t, name)
		exit := callParams("exit")
		exit.Arguments = map[string]any{"status": 4, "words": words}
		_, _ = session.CallTool(t.Context(), exit)
		h.waitState(name, "failed")
		if got := h.between(t, name, "stderr", "begin", "these are the last words"); len(got) != 5000 {
			t.Errorf("%s: %d of 5000 lines were logged", name, len(got))
		}
	}
}

// TestFloodIsBounded has a plugin write without end, and another one answer
// meanwhile.
func TestFloodIsBounded(t *testing.T) {
	// Not in parallel: it takes a whole processor, and the disk.
	h := startFaults(t, hostOptions{hostBlock: "  logs {\n    max_files = 2\n  }\n"}, fault("flood", ""), fault("other", ""))
	h.waitReady()
	line := strings.Repeat("x", 1023) + "\n"
	chunk := []byte(strings.Repeat(line, 64))
	const times = 1600 // 100 MiB
	memory, canTell := peakMemory(t, h.cmd.Process.Pid)

	flooding := h.connect(t, "flood")
	flooded := make(chan struct{})
	go func() {
		defer close(flooded)
		writeTo(t, flooding, "stderr", false, chunk, times)
	}()
	other := h.connect(t, "other")
	calls := 0
	for over := false; !over; calls++ {
		select {
		case <-flooded:
			over = true
		default:
		}
		callTool[struct{ PID int }](t, other, "pid", map[string]any{})
	}
	t.Logf("%d calls were answered during the flood", calls-1)
	if calls < 2 {
		t.Error("no call was answered during the flood")
	}

	writeTo(t, flooding, "stderr", false, []byte("the flood is over\n"), 1)
	eventually(t, "the flood is over", func() bool {
		stdout, _, _ := plughost(t, "logs", "flood", "--tail", "3", "--state-dir", h.stateDir)
		return strings.Contains(stdout, "the flood is over")
	})
	if after, _ := peakMemory(t, h.cmd.Process.Pid); canTell && !raceEnabled {
		t.Logf("the host's memory had its peak at %d KiB, and before the flood at %d KiB", after>>10, memory>>10)
		if grown := after - memory; grown > 50<<20 {
			t.Errorf("the flood of 100 MiB made the host grow by %d MiB", grown>>20)
		}
	}
	var size int64
	files, err := os.ReadDir(filepath.Join(h.stateDir, "logs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		info, err := file.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if size > 32<<20 {
		t.Errorf("after the flood of 100 MiB the logs have %d MiB", size>>20)
	}
	if status := h.status()["flood"]; status.State != "ready" || status.Restarts != 0 {
		t.Errorf("after it the service is %+v, want it untouched", status)
	}
}

// peakMemory is the most memory that a process ever had resident, in bytes, if
// the system tells.
func peakMemory(t *testing.T, pid int) (int64, bool) {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(content)) {
		var kib int64
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			return kib << 10, true
		}
	}
	return 0, false
}
