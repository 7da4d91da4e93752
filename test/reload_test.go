//go:build unix

package test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// step is what plan and reload say of a service.
type step struct {
	Service struct{ Kind, Name string }
	Action  string
	Because []string
	PID     int
	Error   string
}

func (s step) String() string {
	return strings.TrimSpace(s.Action + " " + s.Service.Name + " " + strings.Join(s.Because, ","))
}

// steps are the answer to plan --json or reload --json.
type steps struct {
	Running     bool
	Services    []step
	HostRestart []string
}

func (s steps) want(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for _, step := range s.Services {
		got = append(got, step.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("the steps are %q, want %q", got, want)
	}
}

// configure changes the configuration of a host that was started with
// faultConfig.
func (h *host) configure(opts hostOptions, services ...string) {
	h.t.Helper()
	text := fmt.Sprintf("host {\n  listen = %q\n%s}\n", opts.gateway, opts.hostBlock) + strings.Join(services, "")
	// Whole or not at all: a reload under way may read it now.
	part := opts.config + ".part"
	check(h.t, os.WriteFile(part, []byte(text), 0o600))
	check(h.t, os.Rename(part, opts.config))
}

func (h *host) plan(code int, args ...string) steps {
	h.t.Helper()
	return readJSON[steps](h.t, code, append([]string{"plan", "--json", "--detailed-exitcode", "--state-dir", h.stateDir}, args...)...)
}

func (h *host) reload(code int) steps {
	h.t.Helper()
	return readJSON[steps](h.t, code, "reload", "--json", "--state-dir", h.stateDir)
}

// TestReloadChangesOnlyWhatDiffers changes, adds and removes services, with an
// open session of a client, and looks at everything that shows them.
func TestReloadChangesOnlyWhatDiffers(t *testing.T) {
	ports := freePorts(t, 2)
	port := func(i int) string { return fmt.Sprintf("  port = %d\n", ports[i]) }
	const secret = "do-not-tell"
	opts := faultConfig(t, hostOptions{}, fault("same", ""), fault("inplace", ""), fault("env", ""), fault("old", ""), fault("a", port(0)), fault("b", port(1)), fault("held", ""))
	// Without a host, all are starts.
	nowhere := readJSON[steps](t, 2, "plan", "--json", "--detailed-exitcode", "--config", opts.config, "--state-dir", filepath.Join(t.TempDir(), "none"))
	if nowhere.Running {
		t.Error("a host is said to run")
	}
	nowhere.want(t, "start same", "start inplace", "start env", "start old", "start a", "start b", "start held")

	h := startHost(t, opts)
	h.waitReady()
	session := h.connect(t, "same")
	joined := connectMCP(t, h.base+"/mcp")
	if _, stderr, code := plughost(t, "stop", "held", "--state-dir", h.stateDir); code != 0 {
		t.Fatal(stderr)
	}
	before := h.status()
	h.plan(0).want(t, "keep same", "keep inplace", "keep env", "keep old", "keep a", "keep b", "keep held")

	// The ports of a and b swap.
	h.configure(opts, fault("new", "  depends_on = [service.mcp.same]\n"), fault("same", ""),
		fault("inplace", "  restart {\n    policy = \"never\"\n  }\n  tools {\n    allow = [\"pid\"]\n  }\n"),
		fault("env", fmt.Sprintf("  env = { TOKEN = %q }\n", secret)), fault("a", port(1)), fault("b", port(0)), fault("held", ""))
	want := []string{"start new", "keep same", "update inplace restart.policy,tools.allow", "restart env env.TOKEN", "restart a port", "restart b port", "keep held", "stop old"}
	planned := h.plan(2)
	planned.want(t, want...)
	if pid := planned.Services[1].PID; pid != before["same"].PID {
		t.Errorf("the plan names pid %d, want %d", pid, before["same"].PID)
	}
	text, _, _ := plughost(t, "plan", "--state-dir", h.stateDir)
	for _, line := range []string{
		"  +   mcp.new would be started\n",
		fmt.Sprintf("      mcp.same stays as it is (ready, keeps pid %d)\n", before["same"].PID),
		fmt.Sprintf("  ~   mcp.inplace would be updated in place (ready, keeps pid %d)\n        restart.policy: \"always\" -> \"never\"\n", before["inplace"].PID),
		fmt.Sprintf("  -/+ mcp.env would be restarted (ready, pid %d ends)\n        env.TOKEN # forces a restart\n", before["env"].PID),
		fmt.Sprintf("  -   mcp.old would be stopped (ready, pid %d ends)\n", before["old"].PID),
		"\nPlan: 1 to start, 3 to restart, 1 to stop, 1 to update in place, 2 to keep.\n",
	} {
		if !strings.Contains(text, line) || strings.Contains(text, secret) {
			t.Errorf("for people there is no %q in the plan, or a secret:\n%s", line, text)
		}
	}
	h.reload(0).want(t, want...)
	h.plan(0)
	after := h.status()
	for _, name := range []string{"same", "inplace", "held"} {
		if before[name] != after[name] {
			t.Errorf("%s was %+v and is %+v", name, before[name], after[name])
		}
	}
	for name, port := range map[string]int{"env": 0, "a": ports[1], "b": ports[0], "new": 0} {
		s := after[name]
		if s.State != "ready" || s.PID == before[name].PID || s.Port != port {
			t.Errorf("%s was %+v and is %+v", name, before[name], s)
		}
		if port != 0 {
			holders := readJSON[found](t, 0, "port", "--json", fmt.Sprint(port), "--state-dir", h.stateDir).Holders
			if len(holders) != 1 || holders[0].PID != s.PID {
				t.Errorf("port %d is held by %+v, want %s, pid %d", port, holders, name, s.PID)
			}
		}
	}
	if s, there := after["old"]; there {
		t.Errorf("what was removed is %+v", s)
	}
	if alive(before["old"].PID) {
		t.Error("what was removed runs on")
	}
	for path, want := range map[string]bool{"/mcp/old": false, "/mcp/new": true} {
		response, err := http.Post(h.base+path, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if there := response.StatusCode != http.StatusNotFound; there != want {
			t.Errorf("%s answers %d: %s", path, response.StatusCode, body)
		}
	}
	if _, err := session.CallTool(t.Context(), callParams("pid")); err != nil {
		t.Errorf("the session with what did not change: %v", err)
	}
	tools := make(map[string]bool)
	for tool, err := range joined.Tools(t.Context(), &mcp.ListToolsParams{}) {
		if err != nil {
			t.Fatal(err)
		}
		tools[tool.Name] = true
	}
	for name, want := range map[string]bool{"new__pid": true, "old__pid": false, "inplace__pid": true, "inplace__exit": false, "same__exit": true} {
		if tools[name] != want {
			t.Errorf("the tool %s is shown: %v, want %v", name, tools[name], want)
		}
	}
	// The policy holds for the process that was there before.
	killPID(t, after["inplace"].PID)
	h.waitState("inplace", "failed")
}

func TestReloadOfABadFileChangesNothing(t *testing.T) {
	opts := faultConfig(t, hostOptions{}, fault("f", ""))
	h := startHost(t, opts)
	h.waitReady()
	before := h.status()["f"]
	h.configure(opts, fault("f", "  port = \"no\"\n  comand = []\n"))
	_, want, _ := plughost(t, "validate", "--config", opts.config)
	for _, verb := range []string{"reload", "plan"} {
		_, stderr, code := plughost(t, verb, "--state-dir", h.stateDir)
		if code != 1 || !strings.HasPrefix(stderr, want) || strings.Contains(stderr, "nothing was changed") != (verb == "reload") {
			t.Errorf("%s ends with status %d and writes\n%s\nwant what validate says:\n%s", verb, code, stderr, want)
		}
	}
	h.signal(syscall.SIGHUP)
	h.waitOutput("cannot reload the configuration")
	h.waitCount(want, 1)
	if after := h.status()["f"]; after != before {
		t.Errorf("f was %+v and is %+v", before, after)
	}
}

func TestHangupReloads(t *testing.T) {
	opts := faultConfig(t, hostOptions{}, fault("f", ""))
	h := startHost(t, opts)
	h.waitReady()
	before := h.status()["f"]
	h.configure(opts, fault("f", ""), fault("new", ""))
	h.signal(syscall.SIGHUP)
	h.waitState("new", "ready")
	if after := h.status()["f"]; after != before {
		t.Errorf("f was %+v and is %+v", before, after)
	}
	// What cannot be changed is told, and the rest is done.
	elsewhere := opts
	elsewhere.gateway = fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)[0])
	h.configure(elsewhere, fault("f", ""))
	if plan := h.plan(2); !slices.Equal(plan.HostRestart, []string{"listen"}) {
		t.Errorf("the plan says %+v, want that listen needs another start", plan)
	}
	_, stderr, code := plughost(t, "reload", "--state-dir", h.stateDir)
	if code != 0 || !strings.Contains(stderr, "host.listen was changed; it takes effect when the host is started again") {
		t.Errorf("reload ends with status %d and writes %q", code, stderr)
	}
	if _, there := h.status()["new"]; there {
		t.Error("the rest was not done")
	}
}

func TestReloadOfANewBinary(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "plugin")
	install := func(more string) {
		t.Helper()
		content, err := os.ReadFile(filepath.Join(binaries, "faultplugin"))
		if err != nil {
			t.Fatal(err)
		}
		// As installers do: the file that runs is not written to.
		if err := os.WriteFile(binary+".new", append(content, more...), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(binary+".new", binary); err != nil {
			t.Fatal(err)
		}
	}
	install("")
	h := startFaults(t, hostOptions{}, fault("same", ""), fmt.Sprintf("service \"mcp\" \"f\" {\n  command = [%q]\n}\n", binary))
	h.waitReady()
	before := h.status()
	install("new")
	h.plan(2).want(t, "keep same", "restart f binary")
	h.reload(0).want(t, "keep same", "restart f binary")
	after := h.status()
	if after["f"].PID == before["f"].PID || after["same"] != before["same"] {
		t.Errorf("it was %+v and is %+v", before, after)
	}
	h.plan(0).want(t, "keep same", "keep f")
	h.stop() // leftovers look at the binaries of the tests alone
}

func TestReloadsAtOnceAndWhileTheHostEnds(t *testing.T) {
	family := newFamily(t)
	opts := faultConfig(t, hostOptions{}, fault("f", ""))
	h := startHost(t, opts)
	h.waitReady()
	before := h.status()["f"]
	var wg sync.WaitGroup
	for i := range 4 {
		h.configure(opts, fault("f", ""), fault(fmt.Sprintf("n%d", i), ""))
		wg.Go(func() {
			_, stderr, code := plughost(t, "reload", "--state-dir", h.stateDir)
			// One that a later one overtook says so.
			if code != 0 && !strings.Contains(stderr, "in the configuration") {
				t.Errorf("a reload ends with status %d: %s", code, stderr)
			}
		})
	}
	wg.Wait()
	h.reload(0)
	after := h.status()
	if after["f"] != before || len(after) != 2 || after["n3"].State != "ready" {
		t.Errorf("after all there is %+v, want f as it was and n3", after)
	}

	// One that fails is told.
	h.configure(opts, fault("f", ""), fault("n3", "  env = { FAULT_EXIT = \"1\" }\n"))
	_, stderr, code := plughost(t, "reload", "--state-dir", h.stateDir)
	if code != 1 || !strings.Contains(stderr, "cannot start service mcp.n3") {
		t.Errorf("a reload that fails to start a service ends with status %d and writes %q", code, stderr)
	}

	// A service that takes its time keeps the host from ending.
	h.configure(opts, fault("f", ""), fault("slow", fmt.Sprintf("  env = { %s, FAULT_GRANDCHILD = \"stubborn\" }\n  stop {\n    grace = \"1h\"\n  }\n", family.env())))
	h.reload(0)
	family.wait("grandchild", 1) // or it dies of the signal
	h.signal(syscall.SIGTERM)
	h.waitState("f", "stopped")
	_, stderr, code = plughost(t, "reload", "--state-dir", h.stateDir)
	if code != 1 || !strings.Contains(stderr, "shutting down") {
		t.Errorf("a reload while the host ends ends with status %d and writes %q", code, stderr)
	}
	h.signal(syscall.SIGTERM)
	h.waitExit()
}

func TestStartLimit(t *testing.T) {
	var services []string
	for _, name := range []string{"a", "b", "c"} {
		services = append(services, fault(name, "  env = { FAULT_DELAY = \"500ms\" }\n"))
	}
	h := startFaults(t, hostOptions{hostBlock: "  start_limit = 1\n"}, services...)
	h.waitState("b", "waiting")
	stdout, _, _ := plughost(t, "status", "--json", "--state-dir", h.stateDir)
	var answer struct {
		Services []struct{ State, Cause string }
	}
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil {
		t.Fatal(err)
	}
	starting := 0
	for _, s := range answer.Services {
		switch s.State {
		case "starting":
			starting++
		case "waiting":
			if !strings.Contains(s.Cause, "start_limit") {
				t.Errorf("a service waits because %q", s.Cause)
			}
		}
	}
	if starting > 1 {
		t.Errorf("%d services are starting at once", starting)
	}
	h.waitReady()
}
