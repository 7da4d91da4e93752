//go:build unix

package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// shellBlocks are the commands of a page of the documentation, in their order.
func shellBlocks(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repositoryRoot(t), "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, match := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, match[1])
	}
	if len(blocks) == 0 {
		t.Fatalf("%s has no commands", page)
	}
	return blocks
}

// runBlocks runs the commands of a page in one shell, in a new directory.
func runBlocks(t *testing.T, blocks []string) {
	t.Helper()
	port := freePorts(t, 1)[0]
	script := "set -eum\n" + strings.Join(blocks, "\n")
	// The host of a test has a port of its own, and is waited for.
	script = strings.ReplaceAll(script, "--config services.hcl &",
		"--config services.hcl --config host.hcl &\nuntil plughost status >status 2>&1; do sleep 0.2; done")
	script = strings.ReplaceAll(script, "\ngo mod tidy", fmt.Sprintf("\nprintf 'host {\\n listen = \"127.0.0.1:%d\"\\n}\\n' >host.hcl\ngo mod tidy", port))
	cmd := exec.Command("bash", "-c", script+"\nwait\n")
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PATH="+binaries+":"+os.Getenv("PATH"),
		"PLUGHOST_STATE_DIR="+newStateDir(t), "PLUGHOST_SRC="+repositoryRoot(t))
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s\n%s", err, script, output)
	}
}

// TestTheTutorialWorks runs every command of the tutorial for plugin authors.
func TestTheTutorialWorks(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a module")
	}
	t.Parallel()
	runBlocks(t, shellBlocks(t, "plugins/tutorial.md"))
}

// TestANewAgentIsHosted does with an agent what the tutorial does with an MCP
// server.
func TestANewAgentIsHosted(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a module")
	}
	t.Parallel()
	runBlocks(t, []string{`
plughost plugin new helper --kind agent --replace "$PLUGHOST_SRC"
cd helper
go mod tidy
go test ./...
go build -o bin/helper .
plughost plugin check --strict bin/helper
plughost validate --config services.hcl
`})
}
