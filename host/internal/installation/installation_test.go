//go:build unix

package installation

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// The test binary is also a process that opens an installation: roleEnv says
// how, dirEnv which.
const (
	roleEnv = "INSTALLATION_TEST_ROLE"
	dirEnv  = "INSTALLATION_TEST_DIR"
)

func TestMain(m *testing.M) {
	dir := os.Getenv(dirEnv)
	switch os.Getenv(roleEnv) {
	case "":
		os.Exit(m.Run())
	case "hold": // until standard input ends
		inst, err := Open(dir)
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Println("id", inst.ID)
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "race": // once it is told to, once
		fmt.Println("waits")
		_, _ = os.Stdin.Read(make([]byte, 1))
		inst, err := Open(dir)
		var locked *LockedError
		switch {
		case errors.As(err, &locked):
			fmt.Println("locked")
		case err != nil:
			fmt.Println("error", err)
		default:
			fmt.Println("id", inst.ID)
		}
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
}

// peer is another process.
type peer struct {
	cmd   *exec.Cmd
	stdin io.Writer
	lines *bufio.Scanner
}

func startPeer(t *testing.T, role, dir string) *peer {
	t.Helper()
	p := &peer{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), roleEnv+"="+role, dirEnv+"="+dir)
	p.cmd.Stderr = os.Stderr
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.stdin, p.lines = stdin, bufio.NewScanner(stdout)
	t.Cleanup(p.kill)
	return p
}

func (p *peer) line(t *testing.T) string {
	t.Helper()
	if !p.lines.Scan() {
		t.Fatalf("the other process said nothing: %v", p.lines.Err())
	}
	return p.lines.Text()
}

// id is what the peer opened.
func (p *peer) id(t *testing.T) string {
	t.Helper()
	line := p.line(t)
	id, ok := strings.CutPrefix(line, "id ")
	if !ok {
		t.Fatalf("the other process said %q", line)
	}
	return id
}

func (p *peer) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func mustOpen(t *testing.T, dir string) *Installation {
	t.Helper()
	inst, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inst.Close() })
	return inst
}

func wantError(t *testing.T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("the error is %v, want one with %q", err, part)
	}
}

func TestTheIDIsMadeOnceAndStays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "state")
	first := mustOpen(t, dir)
	if _, err := uuid.Parse(first.ID); err != nil {
		t.Errorf("the id %q is no UUID", first.ID)
	}
	if first.Dir != dir {
		t.Errorf("it is in %s, want %s", first.Dir, dir)
	}
	for _, d := range []string{dir, first.Logs()} {
		if info, err := os.Stat(d); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v; want mode 0700", d, info.Mode(), err)
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if again := mustOpen(t, dir); again.ID != first.ID {
		t.Errorf("the id was %s and is %s", first.ID, again.ID)
	}
	found, err := Find(dir)
	if err != nil || found.ID != first.ID || found.Dir != dir {
		t.Errorf("Find: %+v, %v", found, err)
	}
}

func TestARelativeDirectoryIsMadeAbsolute(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	inst := mustOpen(t, "state")
	if want := filepath.Join(dir, "state"); inst.Dir != want {
		t.Errorf("it is in %s, want %s", inst.Dir, want)
	}
}

func TestTwoDirectoriesAreTwoInstallations(t *testing.T) {
	root := t.TempDir()
	a, b := mustOpen(t, filepath.Join(root, "a")), mustOpen(t, filepath.Join(root, "b"))
	if a.ID == b.ID {
		t.Errorf("both have the id %s", a.ID)
	}
}

func TestFindWhereNothingIs(t *testing.T) {
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "not there")} {
		_, err := Find(dir)
		var missing *NotFoundError
		if !errors.As(err, &missing) || missing.Dir != dir {
			t.Errorf("%s: %v", dir, err)
		}
		if entries, _ := os.ReadDir(dir); len(entries) > 0 {
			t.Errorf("Find made something in %s", dir)
		}
	}
}

func TestAnIDThatMakesNoSenseIsRefusedAndKept(t *testing.T) {
	for name, content := range map[string]string{
		"empty":   "",
		"text":    "my installation\n",
		"cut off": "4e1c0f2e-7d0c-4b1e\n",
		"two":     "4e1c0f2e-7d0c-4b1e-9a5f-0d6a3f1c2b3a\n4e1c0f2e-7d0c-4b1e-9a5f-0d6a3f1c2b3b\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, idFile)
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Open(dir)
			wantError(t, err, path+" holds no UUID")
			_, err = Find(dir)
			wantError(t, err, path+" holds no UUID")
			if after, _ := os.ReadFile(path); string(after) != content {
				t.Errorf("the file holds %q, and held %q", after, content)
			}
			// Nothing is left locked.
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			mustOpen(t, dir)
		})
	}
}

func TestASecondHostIsToldOfTheFirst(t *testing.T) {
	dir := t.TempDir()
	holder := startPeer(t, "hold", dir)
	id := holder.id(t)
	want := holder.cmd.Process.Pid
	_, err := Open(dir)
	var locked *LockedError
	if !errors.As(err, &locked) || locked.PID != want || locked.Dir != dir {
		t.Fatalf("the error is %v, want that pid %d has it", err, want)
	}
	wantError(t, err, "another plughost host is running on "+dir+": pid "+strconv.Itoa(want))
	if found, err := Find(dir); err != nil || found.ID != id {
		t.Errorf("Find beside a host: %+v, %v", found, err)
	}

	// A lock goes with its holder, however that ends.
	holder.kill()
	inst := mustOpen(t, dir)
	if inst.ID != id {
		t.Errorf("the id was %s and is %s", id, inst.ID)
	}
	content, err := os.ReadFile(filepath.Join(dir, lockFile))
	if err != nil || string(content) != strconv.Itoa(os.Getpid())+"\n" {
		t.Errorf("the lock file holds %q (%v)", content, err)
	}
}

func TestTheLockHoldsWithinAProcessToo(t *testing.T) {
	dir := t.TempDir()
	first := mustOpen(t, dir)
	_, err := Open(dir)
	var locked *LockedError
	if !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Fatalf("the error is %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, dir)
}

func TestALockFileWithoutAPID(t *testing.T) {
	dir := t.TempDir()
	mustOpen(t, dir)
	if err := os.WriteFile(filepath.Join(dir, lockFile), []byte("?"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(dir)
	var locked *LockedError
	if !errors.As(err, &locked) || locked.PID != 0 || err.Error() != "another plughost host is running on "+dir {
		t.Errorf("the error is %v", err)
	}
}

func TestAPIDThatIsShorterThanTheOneBefore(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, lockFile), []byte("12345678901234\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, dir)
	_, err := Open(dir)
	var locked *LockedError
	if !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Errorf("the error is %v", err)
	}
}

func TestChildrenDoNotInheritTheLock(t *testing.T) {
	dir := t.TempDir()
	inst := mustOpen(t, dir)
	child := startPeer(t, "hold", t.TempDir())
	_ = child.id(t)
	if err := inst.Close(); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, dir)
}

func TestFirstOpensAtOnceMakeOneID(t *testing.T) {
	for range 3 {
		dir := filepath.Join(t.TempDir(), "state")
		var peers []*peer
		for range 5 {
			p := startPeer(t, "race", dir)
			if got := p.line(t); got != "waits" {
				t.Fatalf("the other process said %q", got)
			}
			peers = append(peers, p)
		}
		for _, p := range peers {
			_, _ = p.stdin.Write([]byte{1})
		}
		said := make(map[string]int)
		for _, p := range peers {
			said[p.line(t)]++
		}
		for _, p := range peers {
			p.kill()
		}
		inst := mustOpen(t, dir)
		if said["id "+inst.ID] != 1 || said["locked"] != len(peers)-1 {
			t.Errorf("the processes said %v, and the id is %s", said, inst.ID)
		}
	}
}

func TestAStateDirectoryThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(file)
	wantError(t, err, "cannot open the state directory")
	_, err = Open(filepath.Join(file, "below"))
	wantError(t, err, "cannot open the state directory")

	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, lockFile), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = Open(dir)
	wantError(t, err, "cannot lock the state directory")
}

func TestFilesAreWrittenWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, content := range []string{"one", "the other"} {
		if err := writeFile(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "directory"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(filepath.Join(dir, "directory"), nil); err == nil {
		t.Error("a directory was overwritten")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("there is more than a file and a directory: %v, %v", entries, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want mode 0600", info.Mode(), err)
	}
}
