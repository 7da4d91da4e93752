//go:build unix

package test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const variables = `
variable "name" {
  default = "of the default"
}
variable "token" {
  type      = string
  sensitive = true
}
variable "port" {
  type    = number
  default = 0
}
`

// variable returns what a service has in its environment.
func variable(t *testing.T, pid int, name string) string {
	t.Helper()
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		t.Skipf("environments cannot be read here: %v", err)
	}
	for _, word := range strings.Split(string(environ), "\x00") {
		if value, ok := strings.CutPrefix(word, name+"="); ok {
			return value
		}
	}
	return ""
}

// TestSecretsAreShownNowhere has two secrets, one after the other, go to a
// service by way of a file of variables, and looks for them everywhere.
func TestSecretsAreShownNowhere(t *testing.T) {
	t.Parallel()
	secrets := []string{"canary-4e1f7a", "canary-9b2c6d"}
	varFile := filepath.Join(t.TempDir(), "secrets.hcl")
	give := func(text string) {
		t.Helper()
		if err := os.WriteFile(varFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	give(fmt.Sprintf("token = %q\n", secrets[0]))
	service := fault("f", "  env = merge({ LOG = var.name }, { AUTH = \"Bearer ${var.token}\" })\n")
	service = strings.Replace(service, "faultplugin\"]", "faultplugin\", var.token]", 1)
	opts := faultConfig(t, hostOptions{
		args: []string{"--var-file", varFile, "--var", "name=of the flag"}, env: []string{"PLUGHOST_VAR_name=of the environment"},
		hostBlock: "  log_level = \"trace\"\n",
	}, variables, service)
	h := startHost(t, opts)
	h.waitReady()
	var shown bytes.Buffer
	ask := func(verb string, args ...string) string {
		t.Helper()
		stdout, stderr, _ := plughost(t, append([]string{verb}, args...)...)
		shown.WriteString(stdout + stderr)
		return stdout + stderr
	}
	atHost := []string{"--state-dir", h.stateDir}
	all := func() {
		ask("plan", atHost...)
		ask("plan", append(atHost, "--json")...)
		ask("status", append(atHost, "--json")...)
		ask("status", append(atHost, "f")...)
		ask("logs", append(atHost, "f")...)
		ask("events", atHost...)
	}
	before := h.status()["f"]
	all()

	give(fmt.Sprintf("token = %q\n", secrets[1]))
	if planned := ask("plan", atHost...); !strings.Contains(planned, "env.AUTH") || strings.Contains(planned, "env.LOG") {
		t.Errorf("the plan is\n%s", planned)
	}
	all()
	ask("reload", atHost...)
	after := h.waitState("f", "ready")
	if after.PID == before.PID {
		t.Errorf("f was not restarted for another secret: %+v", after)
	}
	all()
	if auth, log := variable(t, after.PID, "AUTH"), variable(t, after.PID, "LOG"); auth != "Bearer "+secrets[1] || log != "of the flag" {
		t.Errorf("f has AUTH=%q and LOG=%q", auth, log)
	}

	// What is wrong with a secret, or beside it.
	for _, body := range []string{
		"  port = var.token\n", "  port = parseint(var.token, 10)\n", "  dir = \"/no/${var.token}\"\n", "  env = { (var.token) = [] }\n",
		"  stop {\n    grace = var.token\n  }\n", "  inherit = [var.token, var.token, \"\"]\n", "  user = var.token\n", "  checksum = var.token\n",
	} {
		h.configure(opts, variables, fault("f", body))
		for _, verb := range []string{"reload", "plan"} {
			if text := ask(verb, atHost...); !strings.Contains(text, "sensitive") && !strings.Contains(text, "inherit") {
				t.Errorf("with %q %s says\n%s", body, verb, text)
			}
		}
		ask("validate", "--config", opts.config, "--var-file", varFile)
		ask("validate", "--config", opts.config, "--var-file", varFile, "--json")
	}
	h.configure(opts, strings.Replace(variables, "string", "number", 1), service)
	ask("reload", atHost...)
	give(fmt.Sprintf("token = %q", secrets[1][:9]+"\n"+secrets[1]))
	ask("reload", atHost...)
	h.stop()

	for _, secret := range secrets {
		if strings.Contains(shown.String(), secret) {
			t.Errorf("%s is shown:\n%s", secret, shown.String())
		}
		if strings.Contains(h.output.String(), secret) {
			t.Errorf("%s is in the host's log:\n%s", secret, h.output.String())
		}
		for _, path := range filesWith(t, h.stateDir, secret) {
			t.Errorf("%s is in %s", secret, path)
		}
	}
}

// What a service wrote last is part of the error of a start that failed.
func TestErrorsRepeatNoSecrets(t *testing.T) {
	t.Parallel()
	const secret = "canary-5d0c3e"
	loud := `
service "mcp" "loud" {
  command = ["/bin/sh", "-c", "echo the token $TOKEN is refused >&2; exit 3"]
  env     = { TOKEN = var.token }
  restart {
    policy = "never"
  }
}
`
	h := startFaults(t, hostOptions{args: []string{"--var", "token=" + secret}}, variables, loud)
	status := h.waitState("loud", "failed")
	stdout, stderr, _ := plughost(t, "status", "--json", "--state-dir", h.stateDir)
	events, _, _ := plughost(t, "events", "--state-dir", h.stateDir)
	if !strings.Contains(status.LastError, "the token (sensitive value) is refused") || strings.Contains(stdout+stderr+events, secret) {
		t.Errorf("the status is %+v, and it is shown as %s%s%s", status, stdout, stderr, events)
	}
	h.stop()
	if strings.Contains(h.output.String(), secret) {
		t.Errorf("the host's log is\n%s", h.output.String())
	}
}

// filesWith returns the files below a directory that hold a text. Those that a
// host removes meanwhile are passed over.
func filesWith(t *testing.T, dir, text string) (paths []string) {
	t.Helper()
	there := func(err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return there(err)
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(text)) {
			paths = append(paths, path)
		}
		return there(err)
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestVariablesOnTheCommandLine(t *testing.T) {
	t.Parallel()
	opts := faultConfig(t, hostOptions{}, variables, fault("f", "  env = { PORT = var.port }\n"))
	for _, tt := range []struct {
		args []string
		says string
		code int
	}{
		{nil, "The variable token is not set", 1},
		{[]string{"--var", "token=x"}, "The configuration is valid", 0},
		{[]string{"--var", "token=x", "--var", "prot=1"}, `Did you mean "port"?`, 1},
		{[]string{"--var", "token=x", "--var", "port=http"}, "a number is required", 1},
		{[]string{"--var", "token=x", "--var-file", "no-such.hcl"}, "there is no such file", 1},
	} {
		stdout, stderr, code := plughost(t, append([]string{"validate", "--config", opts.config}, tt.args...)...)
		if code != tt.code || !strings.Contains(stdout+stderr, tt.says) {
			t.Errorf("validate %q ends with status %d and writes %q %q, want %d and %q", tt.args, code, stdout, stderr, tt.code, tt.says)
		}
	}
	report := readJSON[struct {
		Valid       bool
		Diagnostics []struct{ Severity, Summary string }
	}](t, 1, "validate", "--json", "--config", opts.config)
	if report.Valid || len(report.Diagnostics) != 1 || report.Diagnostics[0].Severity != "error" {
		t.Errorf("the report is %+v", report)
	}

	h := startHost(t, hostOptions{config: opts.config, gateway: opts.gateway, args: []string{"--var", "token=x"}})
	h.waitReady()
	// The plan of other values is that of the host's own files.
	h.plan(0).want(t, "keep f")
	h.plan(2, "--var", "port=5").want(t, "restart f env.PORT")
	h.plan(2, "--config", opts.config, "--var", "token=x", "--var", "port=5").want(t, "restart f env.PORT")
	h.plan(0).want(t, "keep f")
}

func TestVerbsSayThatTheyWantAConfiguration(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"run", "validate", "plan"} {
		_, stderr, code := plughost(t, verb, "--state-dir", filepath.Join(t.TempDir(), "none"))
		if code != 1 || !strings.Contains(stderr, "name the configuration with --config") {
			t.Errorf("%s ends with status %d and writes %q", verb, code, stderr)
		}
	}
}
