//go:build unix

package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/plughost/plughost/probes"
)

// terminal is a real one, of tmux(1), in which one command runs.
type terminal struct {
	t   *testing.T
	dir string
}

// newTerminal starts a command in a terminal, which is ended with the test.
func newTerminal(t *testing.T, command ...string) terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("there is no tmux")
	}
	dir, err := os.MkdirTemp("", "tmux-")
	if err != nil {
		t.Fatal(err)
	}
	x := terminal{t, dir}
	settings := filepath.Join(dir, "conf")
	writeFile(t, settings, "set -g status off\nset -g default-terminal screen-256color\n", 0o600)
	// The shell outlives the command, and the signal of Ctrl-C.
	const script = `trap : INT; "$@"; echo "exit status $?"; exec cat`
	x.tmux(append([]string{"-f", settings, "new-session", "-d", "-x", "130", "-y", "30", "--", "/bin/sh", "-c", script, "sh"}, command...)...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the screen:\n%s", x.screen())
		}
		x.tmux("kill-server")
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return x
}

func (x terminal) tmux(args ...string) string {
	x.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", filepath.Join(x.dir, "s"), "-u"}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "NO_COLOR=")
	output, err := cmd.CombinedOutput()
	if err != nil {
		x.t.Fatalf("tmux %q: %v: %s", args, err, output)
	}
	return string(output)
}

// screen is what is to be seen.
func (x terminal) screen() string { return x.tmux("capture-pane", "-p", "-S", "-") }

// keys presses keys.
func (x terminal) keys(keys ...string) { x.tmux(append([]string{"send-keys"}, keys...)...) }

// see waits until something is to be seen, and returns the screen.
func (x terminal) see(pattern string) string {
	x.t.Helper()
	wanted := regexp.MustCompile(pattern)
	var screen string
	eventually(x.t, fmt.Sprintf("the terminal shows %q", pattern), func() bool {
		screen = x.screen()
		return wanted.MatchString(screen)
	})
	return screen
}

// ended waits for the end of the command, with an exit status.
func (x terminal) ended(status int) {
	x.t.Helper()
	x.see(fmt.Sprintf(`(?m)^exit status %d$`, status))
}

// plughostIn runs a command line on a host's state directory in a terminal.
func plughostIn(t *testing.T, stateDir string, args ...string) terminal {
	t.Helper()
	return newTerminal(t, append([]string{filepath.Join(binaries, "plughost"), "--state-dir", stateDir}, args...)...)
}

func TestTerminalShowsHowAHostStartsAndStops(t *testing.T) {
	t.Parallel()
	gate := filepath.Join(t.TempDir(), "gate")
	opts := faultConfig(t, hostOptions{stateDir: newStateDir(t)},
		fault("slow", fmt.Sprintf("  env = { FAULT_DELAY = \"1s\", FAULT_STUBBORN = \"1\", GATE = %q }\n  stop {\n    grace = \"10m\"\n  }\n", gate)),
		fault("next", "  depends_on = [service.mcp.slow]\n"))
	x := plughostIn(t, opts.stateDir, "run", "--config", opts.config)
	x.see(`(?m)^  mcp\.slow  starting +[0-9.]+s +-  start was asked\n  mcp\.next  waiting +[0-9.]+s +-  waits for mcp\.slow, which is starting$`)
	screen := x.see(`plughost is ready: 2 services; MCP at http://[0-9.:]+/mcp, A2A at `)
	want := fmt.Sprintf(`(?m)^  mcp\.slow  ready +[0-9.]+s +-  http://%[1]s/mcp/slow\n  mcp\.next  ready +[0-9.]+s +-  http://%[1]s/mcp/next\nplughost is ready`, opts.gateway)
	if !regexp.MustCompile(want).MatchString(screen) || strings.Count(screen, "mcp.next") != 1 {
		t.Errorf("the board is left like this, want %q:\n%s", want, screen)
	}

	x.keys("C-c")
	x.see(`plughost: stopping the services; press Ctrl-C again to give them no more time`)
	x.see(`(?m)^  mcp\.slow  stopping .*\n  mcp\.next  stopped `)
	x.keys("C-c")
	x.see(`plughost: ending all services now`)
	x.see(`(?m)^  mcp\.slow  stopped `)
	x.ended(0)
}

// TestHostEndsWithItsTerminal closes the window in which a host runs.
func TestHostEndsWithItsTerminal(t *testing.T) {
	t.Parallel()
	opts := faultConfig(t, hostOptions{stateDir: newStateDir(t)}, fault("f", ""), fault("kept", keepBody))
	x := plughostIn(t, opts.stateDir, "run", "--config", opts.config)
	x.see(`plughost is ready`)
	content, err := os.ReadFile(filepath.Join(opts.stateDir, "lock"))
	check(t, err)
	host, err := strconv.Atoi(strings.TrimSpace(string(content)))
	check(t, err)
	x.tmux("new-session", "-d", "cat") // the server ends with its last window
	x.tmux("kill-pane", "-t", "%0")
	eventually(t, "the host ends", func() bool { return !alive(host) })
	checkNothingRuns(t, opts.stateDir)
}

func TestTerminalShowsWhatStaysBroken(t *testing.T) {
	t.Parallel()
	opts := faultConfig(t, hostOptions{stateDir: newStateDir(t)},
		fault("broken", "  env = { FAULT_EXIT = \"1\" }\n  restart {\n    delay = \"1h\"\n    max_delay = \"1h\"\n  }\n"))
	x := plughostIn(t, opts.stateDir, "run", "--config", opts.config)
	x.see(`(?m)^  mcp\.broken  backoff .* next try in [0-9hms.]+: cannot start service mcp\.broken: `)
	x.see(`plughost runs, and goes on with what is not ready yet; MCP at http`)
	x.keys("C-c")
	x.ended(0)
}

func TestTerminalShowsAStartThatIsInterrupted(t *testing.T) {
	t.Parallel()
	opts := faultConfig(t, hostOptions{stateDir: newStateDir(t)}, fault("slow", "  env = { FAULT_DELAY = \"1h\" }\n  ready {\n    timeout = \"2h\"\n  }\n"))
	x := plughostIn(t, opts.stateDir, "run", "--config", opts.config)
	x.see(`(?m)^  mcp\.slow  starting `)
	// Until it executes, a child is in the terminal's group, as the host is.
	eventually(t, "the plugin has executed", func() bool {
		found, err := probes.List(t.Context(), probes.Filter{Installation: installationID(t, opts.stateDir)})
		return err == nil && slices.ContainsFunc(found, func(p probes.Found) bool { return p.Identity.Service == "slow" })
	})
	x.keys("C-c")
	screen := x.see(`(?m)^  mcp\.slow  stopped `)
	x.ended(0)
	if strings.Contains(screen, "[INFO]  stop") || strings.Contains(screen, "is ready") || strings.Count(screen, "mcp.slow") > 2 {
		t.Errorf("the start and the stop are left like this:\n%s", screen)
	}
}

func TestTerminalShowsStatusLogsAndPlansAsTheyGo(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, fault("f", ""), fault("gone", ""))
	h.waitReady()
	first := h.status()["f"].PID
	status := plughostIn(t, h.stateDir, "status", "--watch")
	status.see(fmt.Sprintf(`(?m)^KIND +SERVICE +STATE .*LAST ERROR\nmcp +f +ready +[0-9]+s +%d `, first))
	status.see(` [0-9]+% `) // from the second look on
	logs := plughostIn(t, h.stateDir, "logs", "-f", "f", "gone")
	logs.see(`mcp\.f +.*ready: it answers`)
	if colors := logs.tmux("capture-pane", "-p", "-e"); !strings.Contains(colors, "\x1b[36m") || !strings.Contains(colors, "\x1b[33m") {
		t.Errorf("the services have no colours: %q", colors)
	}

	restart := plughostIn(t, h.stateDir, "restart", "f")
	restart.see(fmt.Sprintf(`Restarted mcp\.f: pid [0-9]+ instead of %d, ready after `, first))
	restart.ended(0)
	second := h.status()["f"].PID
	screen := status.see(fmt.Sprintf(`(?m)^mcp +f +ready +[0-9]+s +%d +- +1 `, second))
	if strings.Count(screen, "KIND") != 1 {
		t.Errorf("the table is not drawn over:\n%s", screen)
	}
	logs.see(`mcp\.f +.*stopping: restart was asked`)

	h.configure(hostOptions{config: h.config, gateway: strings.TrimPrefix(h.base, "http://")}, fault("f", "  env = { A = \"1\" }\n"))
	plan := plughostIn(t, h.stateDir, "plan", "--detailed-exitcode")
	plan.see(fmt.Sprintf(`(?s)-/\+ mcp\.f would be restarted \(ready, pid %d ends\)\n +env\.A # forces a restart\n  -   mcp\.gone would be stopped .*Plan: 1 to restart, 1 to stop\.`, second))
	plan.ended(2)
	reload := plughostIn(t, h.stateDir, "reload")
	reload.see(`Restarted mcp\.f \(env\.A\)\.\nStopped mcp\.gone\.`)
	reload.ended(0)
	status.see(`(?m)^mcp +f .*\n\n`) // the other one is gone

	h.stop()
	status.see(`no host is running on `)
	logs.see(`the host has ended`)
	logs.ended(0)
	status.keys("C-c")
}

func TestTerminalAsksWhatAToolAsks(t *testing.T) {
	t.Parallel()
	h := startFaults(t, hostOptions{}, fault("f", ""))
	h.waitReady()
	x := plughostIn(t, h.stateDir, "call", "f", "ask", `{"message":"Who are you?","schema":{"type":"object","required":["name"],"properties":{
		"name":{"type":"string","title":"Name","minLength":2},"age":{"type":"integer","default":20}}}}`)
	x.see(`(?m)^The tool asks: Who are you\?\n  Name \(text; required\): ?$`)
	x.keys("A", "Enter")
	x.see(`(?m)^  it cannot be that: .*\n  Name`)
	x.keys("Ada", "Enter")
	x.see(`(?m)^  age \(integer\) \[20\]: ?$`)
	x.keys("Enter")
	x.see(`(?m)^Send this to the tool\? \[y\]es, \[n\]o, \[c\]ancel: ?$`)
	x.keys("y", "Enter")
	x.ended(0)
	if screen := x.screen(); !regexp.MustCompile(`"action": "accept",\n  "content": \{\n    "age": 20,\n    "name": "Ada"\n`).MatchString(screen) {
		t.Errorf("the tool was told something else:\n%s", screen)
	}

	x = plughostIn(t, h.stateDir, "call", "f", "ask", "message=Sign in", "url=https://example.com/sign-in")
	x.see(`(?m)^The tool asks: Sign in\n  https://example\.com/sign-in\nWill you open this address`)
	x.keys("C-d")
	x.see(`"action": "cancel"`)
	x.ended(0)

	x = plughostIn(t, h.stateDir, "call", "f", "enter")
	x.see(`(?m)^The tool asks: Sign in\n  https://example\.com/sign-in\nOpen this address`)
	x.keys("n", "Enter")
	x.see(`URL elicitation required`)
	x.ended(1)
	x = plughostIn(t, h.stateDir, "call", "f", "enter")
	x.see(`make the call again\?`)
	if _, stderr, code := plughost(t, "call", "--state-dir", h.stateDir, "f", "open"); code != 0 {
		t.Errorf("signing in: status %d, %s", code, stderr)
	}
	x.keys("y", "Enter")
	x.see(`(?m)^welcome$`)
	x.ended(0)

	x = plughostIn(t, h.stateDir, "call", "f", "ask", "message=Really?")
	x.see(`(?m)^The tool asks: Really\?\nSend this`)
	x.keys("C-c")
	x.see(`ask was cancelled`)
	x.ended(1)
}

func TestBashCompletesNamesOfServices(t *testing.T) {
	t.Parallel()
	const functions = "/usr/share/bash-completion/bash_completion"
	if _, err := os.Stat(functions); err != nil {
		t.Skipf("bash has no completion: %v", err)
	}
	h := startFaults(t, hostOptions{}, fault("alpha", ""), fault("beta", ""))
	h.waitReady()
	profile := filepath.Join(t.TempDir(), "profile")
	writeFile(t, profile, fmt.Sprintf("PS1='> '\nPATH=%s:$PATH\nexport PLUGHOST_STATE_DIR=%s\n. %s\n. <(plughost completion bash)\n", binaries, h.stateDir, functions), 0o600)
	x := newTerminal(t, "bash", "--noprofile", "--rcfile", profile, "-i")
	x.see(`(?m)^>$`)
	x.keys("plughost rest", "Tab")
	x.see(`(?m)^> plughost restart$`)
	x.keys("al", "Tab", "Enter")
	x.see(`(?m)^> plughost restart alpha *\nRestarted mcp\.alpha: pid `)
	x.keys("plughost logs -f ", "Tab", "Tab")
	x.see(`(?m)^alpha +\(mcp, ready\) +beta +\(mcp, ready\)`)
}
