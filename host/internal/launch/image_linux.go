package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// image is an executable whose bytes were verified, in memory that nobody can
// change any more, the host included (memfd_create(2) with all its seals). The
// file that it was read from may be replaced at any time: what was verified is
// what is executed.
type image struct {
	path string // of the file that it was read from
	file *os.File
}

// openImage reads the executable at path, and verifies it against a SHA-256
// digest in hexadecimal. Close gives the memory back once nobody executes it
// any more.
func openImage(path, want string) (*image, error) {
	source, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot verify the checksum: %w", err)
	}
	defer source.Close()
	file, err := executableMemory(filepath.Base(path))
	if err != nil {
		return nil, err
	}
	i := &image{path: path, file: file}
	if err := i.fill(source, want); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return i, nil
}

// executableMemory makes a file in memory that may be executed.
func executableMemory(name string) (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	name = name[:min(len(name), 249)] // memfd_create(2)
	// Since Linux 6.3 whoever wants to execute it has to say so, if the
	// sysctl vm.memfd_noexec is 1; before, the flag is not known.
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(name, flags)
	}
	if errors.Is(err, unix.EACCES) {
		return nil, &ConfigError{errors.New("a checksum cannot be verified here: the system forbids to execute memory (sysctl vm.memfd_noexec is 2)")}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot make memory for an executable: %w", err)
	}
	return os.NewFile(uintptr(fd), "memfd:"+name), nil
}

func (i *image) fill(source io.Reader, want string) error {
	if _, err := io.Copy(i.file, source); err != nil {
		return fmt.Errorf("cannot copy %s to memory: %w", i.path, err)
	}
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(i.file.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return fmt.Errorf("cannot seal the copy of %s: %w", i.path, err)
	}
	if _, err := i.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := checkSum(i.file, i.path, want); err != nil {
		return err
	}
	// The kernel would hand a script's interpreter the name of a descriptor
	// that is closed by then.
	start := make([]byte, 2)
	if _, err := i.file.ReadAt(start, 0); err == nil && bytes.Equal(start, []byte("#!")) {
		return &ConfigError{fmt.Errorf("%s is a script, and a checksum cannot be enforced for one: its interpreter would read the file again, after it was verified; remove checksum, or make the command a binary", i.path)}
	}
	return nil
}

// stage makes a descriptor of the image that is above every one that the child
// is given, since Go moves those about between fork and exec, and returns the
// path by which the child executes it, and what closes it after the spawn.
func (i *image) stage(given []*os.File) (path string, unstage func(), err error) {
	const room = 16 // more than Go needs above the highest one
	highest := 0
	for _, file := range given {
		highest = max(highest, int(file.Fd()))
	}
	fd, err := unix.FcntlInt(i.file.Fd(), unix.F_DUPFD_CLOEXEC, highest+room)
	if err != nil {
		return "", nil, fmt.Errorf("cannot prepare the executable %s: %w", i.path, err)
	}
	return "/proc/self/fd/" + strconv.Itoa(fd), func() { _ = unix.Close(fd) }, nil
}

// Close may be called on nil.
func (i *image) Close() error {
	if i == nil {
		return nil
	}
	return i.file.Close()
}

// recheck does nothing: what was verified cannot have changed.
func (*image) recheck() error { return nil }
