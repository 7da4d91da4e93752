//go:build unix

package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	unformatted = "locals {\na=1\n}\n"
	formatted   = "locals {\n  a = 1\n}\n"
)

func writeFile(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestFmtRewritesFilesInTheirPlace(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), t.TempDir()
	target := filepath.Join(elsewhere, "target.hcl")
	writeFile(t, target, unformatted, 0o640)
	link := filepath.Join(dir, "link.hcl")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "good.hcl"), formatted, 0o600)
	bad := filepath.Join(dir, "bad.hcl")
	writeFile(t, bad, "locals {\n  a = 'x'\n", 0o600)
	writeFile(t, filepath.Join(dir, "x.hcl.json"), `{"locals":{}}`, 0o600)

	stdout, stderr, code := plughost(t, "fmt", dir, filepath.Join(dir, "missing.hcl"))
	if code != 1 || stdout != link+"\n" {
		t.Errorf("fmt ends with status %d and lists %q, want 1 and %q", code, stdout, link)
	}
	for _, want := range []string{bad + " line 2", "missing.hcl"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("fmt does not name %q:\n%s", want, stderr)
		}
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != os.ModeSymlink {
		t.Errorf("the symbolic link is %v (%v) afterwards", info, err)
	}
	info, err := os.Stat(target)
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the file is %v (%v) afterwards, want mode 0640", info, err)
	}
	if content, err := os.ReadFile(target); err != nil || string(content) != formatted {
		t.Errorf("the file holds %q (%v), want %q", content, err, formatted)
	}
	if entries, err := os.ReadDir(elsewhere); err != nil || len(entries) != 1 {
		t.Errorf("beside the file there are %v (%v)", entries, err)
	}
}

func TestFmtChecksAndShowsAndChangesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.hcl")
	writeFile(t, path, unformatted, 0o600)
	stdout, _, code := plughost(t, "fmt", "--check", "--diff", path)
	for _, want := range []string{path + "\n", "--- old/", "+++ new/", "-a=1\n", "+  a = 1\n"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("there is no %q in:\n%s", want, stdout)
		}
	}
	if content, err := os.ReadFile(path); code != 3 || err != nil || string(content) != unformatted {
		t.Errorf("it ends with status %d, and the file holds %q (%v)", code, content, err)
	}
	writeFile(t, path, formatted, 0o600)
	if stdout, _, code := plughost(t, "fmt", "--check", path); code != 0 || stdout != "" {
		t.Errorf("of a formatted file it says %q and ends with status %d", stdout, code)
	}
	if _, stderr, code := plughost(t, "fmt", "-", path); code != 2 || stderr == "" {
		t.Errorf("of standard input and a file it says %q and ends with status %d, want 2", stderr, code)
	}
}

func TestFmtIsAFilter(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{unformatted: formatted, formatted: formatted, "a = [": ""} {
		cmd := exec.Command(filepath.Join(binaries, "plughost"), "fmt", "-")
		cmd.Stdin = strings.NewReader(in)
		out, err := cmd.Output()
		if string(out) != want || (err == nil) != (want != "") {
			t.Errorf("of %q it makes %q (%v), want %q", in, out, err, want)
		}
	}
}
