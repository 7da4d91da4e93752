package test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLogThatNobodyReads has the host's log go to somebody who reads no more of
// it, such as a terminal after Ctrl-S.
func TestLogThatNobodyReads(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	check(t, err)
	defer reader.Close()
	defer writer.Close()
	h := startFaults(t, hostOptions{stderr: writer}, fault("f", ""))
	h.waitReady()
	fill(t, writer)
	for _, verb := range []string{"restart", "stop", "start"} {
		if _, stderr, code := plughost(t, verb, "f", "--state-dir", h.stateDir); code != 0 {
			t.Errorf("plughost %s ended with status %d: %s", verb, code, stderr)
		}
	}
	h.stop()
}

// fill leaves no room in a pipe.
func fill(t *testing.T, pipe *os.File) {
	t.Helper()
	// Opened anew, as O_NONBLOCK is shared with whoever has inherited the pipe.
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", pipe.Fd()), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	check(t, err)
	defer unix.Close(fd)
	for size := 4096; size > 0; {
		switch _, err := unix.Write(fd, make([]byte, size)); {
		case errors.Is(err, unix.EAGAIN):
			size /= 2
		default:
			check(t, err)
		}
	}
}
