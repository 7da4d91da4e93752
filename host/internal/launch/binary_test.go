package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestABinaryIsKnownByItsBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plugin")
	var binaries Binaries
	old := time.Now().Add(-time.Hour)
	check := func(when, content string) {
		t.Helper()
		want := sha256.Sum256([]byte(content))
		got, err := binaries.SHA256(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != hex.EncodeToString(want[:]) {
			t.Errorf("%s: it is not the digest of %q", when, content)
		}
	}
	write := func(content string, at time.Time) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	write("one", old)
	check("at first", "one")
	check("again", "one")
	write("two", old.Add(time.Minute))
	check("after a write of the same size", "two")
	// As packagers do it, some of whom give all files the same time.
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	write("six", old.Add(time.Minute))
	check("after a replacement that has the same size and time", "six")
	now := time.Now().Add(time.Minute) // however long the test takes
	write("new", now)
	check("just written", "new")
	write("old", now)
	check("written twice in one tick of the clock", "old")
}

func TestABinaryThatCannotBeReadIsAnError(t *testing.T) {
	var binaries Binaries
	if _, err := binaries.SHA256(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("no error")
	}
}
