package agentplugin

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

const byHand = "AGENTPLUGIN_TEST_BY_HAND"

// The test binary is its own plugin, run by hand.
func TestMain(m *testing.M) {
	if os.Getenv(byHand) == "" {
		os.Exit(m.Run())
	}
	Serve(&a2a.AgentCard{Name: "by-hand"}, &executor{})
}

func TestByHandItSaysHowToHostIt(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), byHand+"=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("%v, want exit status 1", err)
	}
	if stdout.Len() > 0 {
		t.Errorf("standard output %q", &stdout)
	}
	for _, want := range []string{
		filepath.Base(self) + " is an A2A agent for plughost",
		`service "agent"`, `command = ["` + self + `"]`, "plughost run --config services.hcl",
	} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("standard error does not say %q:\n%s", want, &stderr)
		}
	}
}
