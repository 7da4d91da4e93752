package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// clientEnv has the test binary be a client of the socket that it names.
const clientEnv = "CONTROL_TEST_SOCKET"

func TestMain(m *testing.M) {
	path := os.Getenv(clientEnv)
	if path == "" {
		os.Exit(m.Run())
	}
	status, err := NewClient(path).Status(context.Background())
	switch {
	case errors.Is(err, ErrNoHost):
		fmt.Println("no host:", err)
	case err != nil:
		fmt.Println("error:", err)
	default:
		fmt.Println("version", status.Version)
	}
}

const nobody = 65534

// statusAs asks for the status as another user, in another process.
func statusAs(t *testing.T, uid uint32, path string) string {
	t.Helper()
	// The test binary lies where only its own user can read it.
	dir := shortDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "client")
	if err := copyExecutable("/proc/self/exe", binary); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary)
	cmd.Dir = "/"
	cmd.Env = []string{clientEnv + "=" + path}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the client: %v", err)
	}
	return strings.TrimSpace(string(out))
}

func copyExecutable(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func TestOnlyTheHostsOwnUserIsServed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run a process of another user")
	}
	path, _ := serve(t, &services{})
	want := "version " + someStatus.Version
	if got := statusAs(t, 0, path); got != want {
		t.Errorf("the own user was told %q, want %q", got, want)
	}
	// The modes keep another user out, and it is told that, not that there is
	// no host.
	if got := statusAs(t, nobody, path); !strings.Contains(got, "error: cannot reach the host") || !strings.Contains(got, "permission denied") {
		t.Errorf("another user was told %q", got)
	}
	// The server does so, too, where the modes do not.
	for name, mode := range map[string]os.FileMode{filepath.Dir(path): 0o755, path: 0o777} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	if got := statusAs(t, nobody, path); !strings.HasPrefix(got, "error: uid 65534 may not steer this host, which runs as uid 0: ") {
		t.Errorf("another user was told %q", got)
	}
	if got := statusAs(t, 0, path); got != want { // the server lives
		t.Errorf("the own user was told %q, want %q", got, want)
	}
}
