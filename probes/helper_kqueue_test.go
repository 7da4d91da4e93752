//go:build darwin || freebsd

package probes

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// exeEnv tells helpers where the test binary is.
const exeEnv = "PROBES_TEST_EXE"

// selfExe is the path by which the test binary executes itself. As other users
// are to execute it too, root makes a copy that they can reach.
var selfExe = func() string {
	if path := os.Getenv(exeEnv); path != "" {
		return path
	}
	path, err := os.Executable()
	if err != nil {
		fatal(err)
	}
	if os.Geteuid() == 0 {
		path = copyForAll(path)
		_ = os.Setenv(exeEnv, path)
		copied = path
	}
	return path
}()

// copied is the copy that this process made.
var copied string

func copyForAll(path string) string {
	program, err := os.ReadFile(path)
	if err != nil {
		fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "probes")
	if err != nil {
		fatal(err)
	}
	path = filepath.Join(dir, "probes.test")
	if err := os.WriteFile(path, program, 0o755); err != nil {
		fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		fatal(err)
	}
	return path
}

// tidy removes what selfExe made.
func tidy() {
	if copied != "" {
		_ = os.RemoveAll(filepath.Dir(copied))
	}
}

// systemParts are the parts that only these systems play.
var systemParts = map[string]func(arg string){
	// environ tells its own environment as others see it.
	"environ": func(string) {
		block, err := ownEnviron()
		if err != nil {
			fatal(err)
		}
		fmt.Printf("%q\n", block)
	},
}

// attributes are those of every helper's start.
func (h *helper) attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// held opens the helper, which is a child and not reaped yet.
func (h *helper) held() *Process {
	h.t.Helper()
	return open(h.t, h.pid())
}
