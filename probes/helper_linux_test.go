package probes

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// selfExe is the path by which the test binary executes itself.
const selfExe = "/proc/self/exe"

// systemParts are the parts that only Linux can play.
var systemParts = map[string]func(arg string){
	"overwrite": func(string) {
		overwriteEnviron()
		ready(os.Getpid())
		untilEOF()
	},
	"undumpable": func(string) {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			fatal(err)
		}
		ready(os.Getpid())
		untilEOF()
	},
	// first-thread-dead ends its first thread and goes on with the others.
	"first-thread-dead": func(string) {
		ready(os.Getpid())
		go func() { untilEOF(); os.Exit(0) }()
		// This is the first thread: init has locked it.
		_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
	},
	"exhausted":   partExhausted,
	"rename":      partRename,
	"old-kernel":  partOldKernel,
	"exit-status": partExitStatus,
	"reaper":      partReaper,
	"hidden":      partHidden,
	"foreign-proc": func(string) {
		_, birthErr := Self()
		_, listErr := List(context.Background(), Filter{Installation: "x"})
		fmt.Println(birthErr != nil, listErr != nil)
	},
}

func init() {
	if os.Getenv(helperEnv) == "first-thread-dead" {
		runtime.LockOSThread()
	}
}

// tidy has nothing to do here.
func tidy() {}

// attributes are those of every helper's start: it comes with a pidfd.
func (h *helper) attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{PidFD: &h.pidfd} }

// held returns the process of the pidfd that came with the start.
func (h *helper) held() *Process {
	h.t.Helper()
	if h.pidfd < 0 {
		h.t.Skip("the kernel gives no pidfd at the start")
	}
	p, err := FromPidfd(h.pid(), h.pidfd)
	if err != nil {
		h.t.Fatal(err)
	}
	h.pidfd = -1
	h.t.Cleanup(func() { _ = p.Close() })
	return p
}

// overwriteEnviron writes over the environment block in the process's memory,
// as programs do that set their title.
func overwriteEnviron() {
	line, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		fatal(err)
	}
	st, err := parseStat(line)
	if err != nil || st.envEnd <= st.envStart {
		fatal(fmt.Errorf("no bounds of the environment: %w", err))
	}
	mem, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		fatal(err)
	}
	title := []byte(strings.Repeat("worker: idle ", 100))
	block := make([]byte, st.envEnd-st.envStart)
	copy(block[:len(block)/2], title)
	if _, err := mem.WriteAt(block, int64(st.envStart)); err != nil {
		fatal(err)
	}
	_ = mem.Close()
}

// procPath returns the path of a process's file in /proc.
func procPath(pid int, name string) string {
	return "/proc/" + strconv.Itoa(pid) + "/" + name
}
