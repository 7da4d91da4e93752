package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestExecutableSwappedAfterItWasVerifiedDoesNotRun(t *testing.T) {
	content, err := os.ReadFile("/bin/echo")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "echo")
	if err := os.WriteFile(path, content, 0o755); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	image, err := openImage(path, hex.EncodeToString(sum[:]))
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	// Overwritten in place, and replaced.
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho swapped\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	staged, unstage, err := image.stage(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer unstage()
	output, err := (&exec.Cmd{Path: staged, Args: []string{"echo", "verified"}}).Output()
	if err != nil || strings.TrimSpace(string(output)) != "verified" {
		t.Errorf("it wrote %q (%v), want that the verified one ran", output, err)
	}
	if _, err := image.file.WriteAt([]byte("x"), 0); err == nil {
		t.Error("the verified copy can be written")
	}
	if err := image.file.Truncate(0); err == nil {
		t.Error("the verified copy can be cut")
	}
}

// Go moves descriptors about between fork and exec: the image's must not be
// where another one is put, however many a child is given.
func TestStagedImageIsAboveWhatTheChildIsGiven(t *testing.T) {
	content, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	image, err := openImage("/bin/true", hex.EncodeToString(sum[:]))
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	var given []*os.File
	for range 40 {
		file, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		given = append(given, file)
		staged, unstage, err := image.stage(given)
		if err != nil {
			t.Fatal(err)
		}
		if err := (&exec.Cmd{Path: staged, Args: []string{"true"}, ExtraFiles: given}).Run(); err != nil {
			t.Errorf("with %d files: %v", len(given), err)
		}
		unstage()
	}
}
