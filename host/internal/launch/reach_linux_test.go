package launch_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// envMount is where a process mounts a file system that never answers.
const envMount = "LAUNCH_TEST_MOUNT"

// serveNothing mounts a file system, of which nobody reads the requests, until
// its standard input ends.
func serveNothing() {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Mount("mute", os.Getenv(envMount), "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd))
	}
	fmt.Println(err)
	// Should the test hang, too.
	time.AfterFunc(20*time.Second, func() { os.Exit(1) })
	_, _ = bufio.NewReader(os.Stdin).ReadString(0)
}

// muteFileSystem mounts such a file system, and returns where.
func muteFileSystem(t *testing.T) string {
	t.Helper()
	needRoot(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envPlugin+"=mute-file-system", envMount+"="+dir)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(stdout).ReadString('\n')
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
		_ = unix.Unmount(dir, unix.MNT_DETACH)
	})
	if said = strings.TrimSpace(said); err != nil || said != "<nil>" {
		t.Skipf("no file system can be mounted: %s, %v", said, err)
	}
	return dir
}

// While a child waits for a file system the whole host would, and for as long.
func TestAFileSystemThatDoesNotAnswerHoldsUpNobodyElse(t *testing.T) {
	mute := muteFileSystem(t)
	l := newLauncher(t)
	for _, what := range []string{"executable", "working directory"} {
		for range 2 {
			s := spec(t, "good", &lines{})
			s.ReadyTimeout = 50 * time.Millisecond
			if what == "executable" {
				s.Path = filepath.Join(mute, "plugin")
			} else {
				s.Dir = mute
			}
			_, err := l.Launch(timeout(t), s)
			if err == nil || !strings.Contains(err.Error(), "does not answer") || !strings.Contains(err.Error(), "was not ready within") {
				t.Errorf("with such an %s: %v", what, err)
			}
		}
	}
	inst, err := l.Launch(timeout(t), spec(t, "good", &lines{}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inst.Stop(timeout(t), patience); err != nil {
		t.Error(err)
	}
	checkNothingLeft(t, l)
}
