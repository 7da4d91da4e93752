package launch

import (
	"os/exec"
	"slices"
	"testing"

	"github.com/plughost/plughost/probes"
)

// Where the kernel does not list children they are found by their parent, also
// those that have ended and wait to be reaped.
func TestChildrenAreFoundEitherWay(t *testing.T) {
	cmd := exec.Command("/bin/cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	process, err := probes.Open(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer process.Close()
	check := func(when string) {
		t.Helper()
		for name, find := range map[string]func() []int{"by the kernel's list": children, "by their parent": childrenByParent} {
			if !slices.Contains(find(), cmd.Process.Pid) {
				t.Errorf("%s: the child is not found %s", when, name)
			}
		}
	}
	check("while it runs")
	stdin.Close()
	if err := process.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("as a zombie")
}
