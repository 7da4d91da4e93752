//go:build unix

package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

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
	file, err := makePipe(path, os.O_RDONLY)
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
	return makePipe(path, os.O_RDWR)
}

// makePipe makes a named pipe for whom the directory belongs to, and opens it.
// The owner of the directory may be another user than the host's, and not be
// trusted: what is opened has to be the pipe.
func makePipe(path string, mode int) (*os.File, error) {
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return nil, err
	}
	file, err := openOwn(path, mode|unix.O_NONBLOCK, os.ModeNamedPipe)
	if err != nil {
		return nil, err
	}
	var owner unix.Stat_t
	if err = unix.Stat(filepath.Dir(path), &owner); err == nil && int(owner.Uid) != os.Geteuid() {
		err = file.Chown(int(owner.Uid), int(owner.Gid))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// openOwn opens a file that has to be of a kind, and the directory's owner's or
// the host's. It follows no link.
func openOwn(path string, mode int, kind os.FileMode) (*os.File, error) {
	file, err := os.OpenFile(path, mode|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	var dir unix.Stat_t
	info, err := file.Stat()
	if err = errors.Join(err, unix.Stat(filepath.Dir(path), &dir)); err == nil {
		own, ok := info.Sys().(*syscall.Stat_t)
		if !ok || info.Mode().Type() != kind || own.Nlink != 1 || own.Uid != dir.Uid && int(own.Uid) != os.Geteuid() {
			err = fmt.Errorf("%s is not what was expected there", path)
		}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// openOutput opens a file in the directory of an instance that the plugin wrote.
func openOutput(path string) (*os.File, error) {
	return openOwn(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
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
