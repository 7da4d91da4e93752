//go:build unix

package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestCall(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, fault("f", ""), fault("failing", "\n  env = { FAULT_EXIT = \"1\" }\n  restart {\n    policy = \"never\"\n  }\n"))
	h.waitState("f", "ready")
	h.waitState("failing", "failed")
	pid := strconv.Itoa(h.status()["f"].PID)
	tests := []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string
	}{
		{"a result for a person", []string{"f", "pid"}, 0, "{\n  \"pid\": " + pid + "\n}\n", ""},
		{"a result for a program", []string{"--json", "f", "pid"}, 0, `"structuredContent": {`, ""},
		{"arguments as JSON", []string{"f", "write", `{"stream":"stderr","base64":"YQo=","times":1}`}, 0, "{}", ""},
		{"arguments as pairs", []string{"f", "write", "stream=stderr", "base64=YQo=", "times=1"}, 0, "{}", ""},
		{"a tool that asks", []string{"f", "ask", "message=May I?"}, 0, `"action": "decline"`, "was declined: May I?"},
		{"a tool that asks a model", []string{"f", "sample"}, 1, "client does not support", "sample has failed"},
		{"a tool that fails", []string{"f", "write", "stream=stderr", "base64=?", "times=1"}, 1, "illegal base64", "write has failed"},
		{"a tool that fails, for a program", []string{"--json", "f", "write", "stream=stderr", "base64=?", "times=1"}, 1, `"isError": true`, "write has failed"},
		{"a tool of almost that name", []string{"f", "pdi"}, 1, "", "did you mean pid?"},
		{"a tool of no such name", []string{"f", "levitate"}, 1, "", "it has ask, close, "},
		{"no tool, for a person", []string{"f"}, 0, "\nwrite   base64 stream times [library]  ", ""},
		{"no tool, for a program", []string{"--json", "f"}, 0, `"name": "write"`, ""},
		{"no tool, of a service that has failed", []string{"failing"}, 1, "", "service mcp.failing cannot be called: it is failed"},
		{"a service of no such name", []string{"g", "pid"}, 1, "", "there is no service \"g\""},
		{"a service that has failed", []string{"failing", "pid"}, 1, "", "service mcp.failing cannot be called: it is failed"},
		{"no object", []string{"f", "pid", "[]"}, 2, "", "JSON object"},
		{"too late", []string{"--timeout", "1ms", "f", "wait", "began=" + filepath.Join(t.TempDir(), "began")}, 1, "", "longer than 1ms"},
	}
	for _, test := range tests {
		stdout, stderr, code := plughost(t, append([]string{"call", "--state-dir", h.stateDir}, test.args...)...)
		if code != test.code || !strings.Contains(stdout, test.stdout) || !strings.Contains(stderr, test.stderr) || test.stderr == "" && stderr != "" {
			t.Errorf("%s: status %d, want %d; %q %q", test.name, code, test.code, stdout, stderr)
		}
	}
	if _, stderr, code := plughost(t, "call", "--state-dir", t.TempDir(), "f", "pid"); code != 1 || !strings.Contains(stderr, "plughost run") {
		t.Errorf("without a host: status %d, %q", code, stderr)
	}
}

func TestShellsCompleteCalls(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, fault("f", ""))
	h.waitReady()
	for words, want := range map[string]string{
		"f cl":          "close\tClose the plugin's output\n",
		"f wr":          "write\tWrite to the plugin's output\n",
		"f write ":      "base64=\nlibrary=\nstream=\ntimes=\n",
		"f write times": "times=\n",
		"nope ":         ":4\n",
	} {
		args := append([]string{"__complete", "call", "--state-dir", h.stateDir}, strings.Split(words, " ")...)
		if stdout, stderr, _ := plughost(t, args...); !strings.HasPrefix(stdout, want) {
			t.Errorf("%q is completed by %q %q, want %q", words, stdout, stderr, want)
		}
	}
}

func TestInterruptCancelsACall(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, fault("f", ""))
	h.waitReady()
	began := filepath.Join(t.TempDir(), "began")
	there := func() bool { _, err := os.Stat(began); return err == nil }
	cmd := exec.Command(filepath.Join(binaries, "plughost"), "call", "--state-dir", h.stateDir, "f", "wait", "began="+began)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the call has begun", there)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(stderr.String(), "wait was cancelled") {
		t.Errorf("the command ended with %v: %q", err, stderr.String())
	}
	eventually(t, "the plugin was told", func() bool { return !there() })
}
