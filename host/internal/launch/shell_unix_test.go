//go:build unix

package launch

import (
	"os/exec"
	"strings"
	"testing"
)

func TestShellSetsLimitsAndBecomesTheCommand(t *testing.T) {
	nice := 14
	tests := []struct {
		name    string
		c       Confinement
		command string
		want    string
	}{
		{"open files", Confinement{OpenFiles: 77}, "ulimit -Hn; ulimit -Sn", "77\n77"},
		{"priority", Confinement{Nice: &nice}, "nice", "14"},
		{"both", Confinement{OpenFiles: 78, Nice: &nice}, "ulimit -Hn; nice", "78\n14"},
		{"arguments", Confinement{OpenFiles: 77}, `printf '<%s>' "$0" "$@"`, "<a b><$HOME><>"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path, args := test.c.throughShell("/bin/sh", []string{"called", "-c", test.command, "a b", "$HOME", ""})
			output, err := (&exec.Cmd{Path: path, Args: args}).CombinedOutput()
			if err != nil || strings.TrimSpace(string(output)) != test.want {
				t.Errorf("got %q (%v), want %q", output, err, test.want)
			}
		})
	}
	path, args := Confinement{}.throughShell("/bin/x", []string{"called", "1"})
	if path != "/bin/x" || len(args) != 2 || args[0] != "called" {
		t.Errorf("without limits the command becomes %s %q", path, args)
	}
}
