package test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// publicDir is a directory that every user can pass through.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "plughost-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// copyBinary copies a built binary to where every user can run it.
func copyBinary(t *testing.T, name, dir string) string {
	t.Helper()
	in, err := os.Open(filepath.Join(binaries, name))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	path := filepath.Join(dir, name)
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMembersOfAGroupMaySteerTheHost(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can run a command as another user")
	}
	member, err := user.Lookup("daemon")
	if err != nil {
		t.Skip(err)
	}
	dir := publicDir(t)
	binary, stateDir := copyBinary(t, "plughost", dir), filepath.Join(dir, "state")
	t.Cleanup(func() { sweep(t, stateDir) })
	as := func(name string, args ...string) (output string, code int) {
		t.Helper()
		account, err := user.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		uid, _ := strconv.Atoi(account.Uid)
		gid, _ := strconv.Atoi(account.Gid)
		cmd := exec.Command(binary, append(args, "--state-dir", stateDir)...)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	run := func(control string) *host {
		t.Helper()
		h := startFaults(t, hostOptions{stateDir: stateDir, hostBlock: control}, fault("f", ""))
		h.waitReady()
		return h
	}

	h := run(fmt.Sprintf("  control {\n    group = %q\n  }\n", member.Gid))
	for _, test := range []struct{ args, want string }{
		{"status", "mcp   f        ready"},
		{"status f", "proof            ours"},
		{"restart f", "Restarted mcp.f"},
		{"logs f", "it answers"},
		{"plan", "nothing to change"},
	} {
		if output, code := as("daemon", strings.Fields(test.args)...); code != 0 || !strings.Contains(output, test.want) {
			t.Errorf("for a member, %s ends with status %d, without %q in:\n%s", test.args, code, test.want, output)
		}
	}
	if output, code := as("nobody", "status"); code != 1 || !strings.Contains(output, "another user's") || !strings.Contains(output, "control { group }") {
		t.Errorf("for another user, status ends with status %d and says %q", code, output)
	}
	// The members pass through, and see nothing of it.
	for _, hidden := range []string{".", "registry.db", "ca.key", "logs", "logs/mcp.f.jsonl", "run"} {
		cmd := exec.Command("/bin/sh", "-c", "ls "+hidden+" && head -c 1 "+hidden)
		cmd.Dir = stateDir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1, Gid: 1}}
		if output, err := cmd.CombinedOutput(); err == nil {
			t.Errorf("a member can read %s: %s", hidden, output)
		}
	}
	h.stop()

	// What one host admitted, the next one does not.
	run("")
	if output, code := as("daemon", "status"); code != 1 || !strings.Contains(output, "another user's") {
		t.Errorf("for a member no more, status ends with status %d and says %q", code, output)
	}
	if info, err := os.Stat(stateDir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the state directory is %v (%v)", info.Mode(), err)
	}
}
