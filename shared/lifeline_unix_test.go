//go:build unix

package shared

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// handOver makes a pipe as a child inherits it: its read end is a mere number.
func handOver(t *testing.T) (fd int, writeEnd *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if fd, err = syscall.Dup(int(r.Fd())); err != nil {
		t.Fatal(err)
	}
	return fd, w
}

func TestLifelineEndsWithItsLastWriteEnd(t *testing.T) {
	fd, w := handOver(t)
	gone, err := watchLifeline(fd)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString("nothing that is written ends it"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-gone:
		t.Error("the host is gone while it holds its end")
	default:
	}
	_ = w.Close()
	<-gone
}

func TestLifelineThatIsNotOpenIsAnError(t *testing.T) {
	fd, w := handOver(t)
	defer w.Close()
	_ = syscall.Close(fd)
	if _, err := watchLifeline(fd); err == nil || !strings.Contains(err.Error(), EnvLifeline) {
		t.Errorf("error %v, want one that names the variable", err)
	}
}
