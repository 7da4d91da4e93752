//go:build unix

package shared

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// maxOutput bounds each of the two files, in bytes, that hold the latest of
// what a plugin wrote without a host. It is checked from time to time.
const maxOutput = 8 << 20

// maxPipe is what a pipe can hold, in bytes, if nobody with privileges made it
// longer: see pipe(7).
const maxPipe = 1 << 20

// streams are where the plugin's standard output and error go. All who write
// there have got hold of a descriptor already: the runtime, which writes the
// last words of a crash to number 2, go-plugin's pipes, which it put in the
// place of os.Stdout and os.Stderr, and whoever took those. So it is the
// descriptors that are made to mean something else.
//
// Its methods are called by one goroutine.
type streams struct {
	dir   string
	fd    int      // of the latest file; 0 if there is none
	files []string // the names of those of this orphanhood, the oldest first
	made  int      // how many there ever were
	// pipes are go-plugin's, which reads their other ends for ever: they must
	// not come to an end.
	pipes []int
	// rests are the host's ends of its pipes, standard output's and standard
	// error's, or -1 where they cannot be had. As long as they are open no write
	// fails since the host is gone, and what it has not read can be.
	rests [2]int
}

func newStreams(dir string) *streams {
	return &streams{dir: dir, rests: [2]int{readEnd(1), readEnd(2)}}
}

// salvage has what the host has not read of its pipes go to a file.
func (s *streams) salvage(file int) {
	buffer := make([]byte, maxPipe)
	for _, rest := range s.rests {
		if rest < 0 {
			continue
		}
		// As much as a pipe has at most: who writes now may go on for ever.
		if n, err := unix.Read(rest, buffer); err == nil && n > 0 {
			_, _ = descriptor(file).Write(buffer[:n])
		}
	}
}

// forward has what still comes through the host's pipes, from those who
// inherited them or wrote at the moment, go where the output goes.
func (s *streams) forward() {
	for i, rest := range s.rests {
		if rest < 0 {
			continue
		}
		pipe := os.NewFile(uintptr(rest), "pipe of the host")
		go func() {
			defer pipe.Close()
			_, _ = io.Copy(descriptor(i+1), pipe)
		}()
	}
	s.rests = [2]int{-1, -1}
}

// release lets go of the host's ends of its pipes: of one that is gone, a write
// that nobody reads is to fail, not to wait.
func (s *streams) release() {
	for _, rest := range s.rests {
		if rest >= 0 {
			_ = unix.Close(rest)
		}
	}
	s.rests = [2]int{-1, -1}
}

// descriptor is a number, whatever it means at the time of a write.
type descriptor int

func (d descriptor) Write(p []byte) (n int, err error) {
	for n < len(p) {
		m, err := unix.Write(int(d), p[n:])
		if err != nil && err != unix.EINTR {
			return n, err
		}
		n += max(m, 0)
	}
	return n, nil
}

// toFile has the output go to a new file in the instance's directory, or
// nowhere if that cannot be made.
func (s *streams) toFile() {
	s.made++
	name := "output." + strconv.Itoa(s.made) + ".log"
	path := filepath.Join(s.dir, name)
	fd, err := unix.Open(path+".new", unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC, 0o600)
	if err == nil {
		s.files = append(s.files, name)
		// Who sees it by its name finds that the output goes there.
		defer func() { _ = os.Rename(path+".new", path) }()
	} else if fd, err = unix.Open(os.DevNull, unix.O_WRONLY|unix.O_CLOEXEC, 0); err != nil {
		return // it stays as it is: writes fail
	}
	s.salvage(fd)
	s.redirect(fd, fd)
	s.forward()
	s.closeFile()
	s.fd = fd
}

// boundFile begins a new file if the latest is long, and removes the oldest
// but one.
func (s *streams) boundFile() {
	var stat unix.Stat_t
	if s.fd == 0 || unix.Fstat(s.fd, &stat) != nil || stat.Size < maxOutput {
		return
	}
	s.toFile()
	for len(s.files) > 2 {
		_ = os.Remove(filepath.Join(s.dir, s.files[0]))
		s.files = s.files[1:]
	}
}

func (s *streams) closeFile() {
	if s.fd != 0 {
		_ = unix.Close(s.fd)
		s.fd = 0
	}
}

// adopt has the output go to the pipes of another host, and returns its
// lifeline and the files that were written without one.
func (s *streams) adopt(request *plughostv1.AdoptRequest) (hostGone <-chan struct{}, files []string, err error) {
	// Without a reader, which the host is, this fails instead of waiting.
	stdout, err := s.openPipe(request.GetStdout(), unix.O_WRONLY)
	if err != nil {
		return nil, nil, err
	}
	defer unix.Close(stdout)
	stderr, err := s.openPipe(request.GetStderr(), unix.O_WRONLY)
	if err != nil {
		return nil, nil, err
	}
	defer unix.Close(stderr)
	lifeline, err := s.openPipe(request.GetLifeline(), unix.O_RDONLY)
	if err != nil {
		return nil, nil, err
	}
	for _, fd := range []int{stdout, stderr} {
		// Whoever writes to standard output expects to wait for its reader.
		if err := unix.SetNonblock(fd, false); err != nil {
			return nil, nil, err
		}
	}
	if hostGone, err = watchLifeline(lifeline); err != nil {
		_ = unix.Close(lifeline)
		return nil, nil, err
	}
	s.redirect(stdout, stderr)
	s.rests = [2]int{readEnd(stdout), readEnd(stderr)}
	s.closeFile()
	files, s.files = s.files, nil
	return hostGone, files, nil
}

// openPipe opens a named pipe in the instance's directory.
func (s *streams) openPipe(name string, mode int) (fd int, err error) {
	if name == "" || filepath.Base(name) != name {
		return 0, fmt.Errorf("%q is no name of a pipe in the instance's directory", name)
	}
	fd, err = unix.Open(filepath.Join(s.dir, name), mode|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return 0, fmt.Errorf("cannot open the pipe %s of the host: %w", name, err)
	}
	var stat unix.Stat_t
	if err = unix.Fstat(fd, &stat); err == nil && stat.Mode&unix.S_IFMT != unix.S_IFIFO {
		err = fmt.Errorf("%s is no pipe", name)
	}
	if err != nil {
		_ = unix.Close(fd)
		return 0, err
	}
	return fd, nil
}

// redirect makes the descriptors of standard output and error, and those of
// go-plugin's pipes, mean other files.
func (s *streams) redirect(stdout, stderr int) {
	_ = replaceFD(stdout, 1, false)
	_ = replaceFD(stderr, 2, false)
	keep := s.pipes == nil
	for _, stream := range []struct {
		file *os.File
		fd   int
	}{{os.Stdout, stdout}, {os.Stderr, stderr}} {
		raw, err := stream.file.SyscallConn()
		if err != nil {
			continue
		}
		_ = raw.Control(func(fd uintptr) {
			if fd <= 2 {
				return // go-plugin was not there, or the plugin put it back
			}
			if keep {
				if pipe, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 3); err == nil {
					s.pipes = append(s.pipes, pipe)
				}
			}
			_ = replaceFD(stream.fd, int(fd), true)
		})
	}
}
