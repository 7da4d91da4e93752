//go:build unix

package launch

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// It may be large, or on a disk that is far away.
func TestABinaryThatIsReadForLongHoldsUpNoOther(t *testing.T) {
	dir := t.TempDir()
	slow, quick := filepath.Join(dir, "slow"), filepath.Join(dir, "quick")
	if err := unix.Mkfifo(slow, 0o600); err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(slow, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(quick, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var binaries Binaries
	known := binaries.at(slow)
	read := make(chan error, 1)
	go func() {
		_, err := binaries.SHA256(slow)
		read <- err
	}()
	for known.mu.TryLock() { // until it is being read
		known.mu.Unlock()
	}
	if _, err := binaries.SHA256(quick); err != nil {
		t.Error(err)
	}
	_ = writer.Close()
	if err := <-read; err != nil {
		t.Error(err)
	}
}
