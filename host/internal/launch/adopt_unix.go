//go:build unix

package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// namedPipes are the host's ends of the pipes that an adopted plugin opens by
// their names.
type namedPipes struct {
	stdout, stderr, lifeline             *os.File
	stdoutName, stderrName, lifelineName string
	dir                                  string
}

// pipePrefix begins the names of all such pipes.
const pipePrefix = "adopt."

// openNamedPipes makes the pipes in an instance's directory, in the place of
// those that a host which died in the midst of an adoption left.
func openNamedPipes(dir string) (p *namedPipes, err error) {
	p = &namedPipes{dir: dir}
	p.remove()
	defer func() {
		if err != nil {
			p.close()
			p.remove()
			err = fmt.Errorf("cannot make the plugin's pipes: %w", err)
		}
	}()
	prefix := pipePrefix + uuid.NewString()[:8] + "."
	p.stdoutName, p.stderrName, p.lifelineName = prefix+"stdout", prefix+"stderr", prefix+"lifeline"
	if p.stdout, err = readEnd(filepath.Join(dir, p.stdoutName)); err != nil {
		return nil, err
	}
	if p.stderr, err = readEnd(filepath.Join(dir, p.stderrName)); err != nil {
		return nil, err
	}
	p.lifeline, err = writeEnd(filepath.Join(dir, p.lifelineName))
	return p, err
}

// readEnd makes a pipe and opens it for reading. Before a writer has opened it
// a read would return its end.
func readEnd(path string) (*os.File, error) {
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil || runtime.GOOS == "linux" {
		return file, err
	}
	return polled(file)
}

// polled hands on what comes through a named pipe, which on macOS and the BSDs
// Go does not poll, through an unnamed one, which can be read with a deadline.
func polled(fifo *os.File) (*os.File, error) {
	r, w, err := os.Pipe()
	if err == nil {
		err = unix.SetNonblock(int(fifo.Fd()), false)
	}
	if err != nil {
		return nil, errors.Join(err, fifo.Close())
	}
	go func() {
		defer w.Close()
		defer fifo.Close()
		_, _ = io.Copy(w, fifo)
	}()
	return r, nil
}

// writeEnd makes a pipe and opens it for writing, which must not wait for its
// reader.
func writeEnd(path string) (*os.File, error) {
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
}

func (p *namedPipes) close() {
	for _, f := range []*os.File{p.stdout, p.stderr, p.lifeline} {
		_ = f.Close() // of nil: an error that says so, no panic
	}
}

// remove removes the names; the pipes stay as long as they are open.
func (p *namedPipes) remove() {
	paths, _ := filepath.Glob(filepath.Join(p.dir, pipePrefix+"*"))
	for _, path := range paths {
		_ = os.Remove(path)
	}
}
