package probes

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxEnviron bounds what is read of one environment. The kernel lets arguments
// and environment have 6 MiB together.
const maxEnviron = 8 << 20

// errCut says that a block changed under the reading.
var errCut = errors.New("environment changed while it was read")

// retry repeats a system call that a signal interrupted.
func retry[T any](f func() (T, error)) (T, error) {
	for {
		v, err := f()
		if err == nil || !errors.Is(err, unix.EINTR) {
			return v, err
		}
	}
}

// pathSize is more than any path below has, with the NUL at its end: a thread's
// file in /proc is the longest.
const pathSize = 64

// openat opens a path that has no NUL in it. A short one is put on the stack: a
// scan of all processes allocates nothing for each of them.
func openat(dir int, path string, flags int) (int, error) {
	flags |= unix.O_CLOEXEC | unix.O_LARGEFILE
	var name [pathSize]byte
	if len(path) >= len(name) {
		return retry(func() (int, error) { return unix.Openat(dir, path, flags, 0) })
	}
	copy(name[:], path)
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(&name)), uintptr(flags), 0, 0, 0)
		switch errno {
		case 0:
			return int(fd), nil
		case unix.EINTR:
		default:
			return -1, errno
		}
	}
}

// readlinkat reads a link, as much as fits into buf. Its path must be short, and
// have no NUL in it.
func readlinkat(dir int, path string, buf []byte) ([]byte, error) {
	var name [pathSize]byte
	if len(path) >= len(name) || len(buf) == 0 {
		return nil, unix.EINVAL
	}
	copy(name[:], path)
	n, _, errno := unix.Syscall6(unix.SYS_READLINKAT, uintptr(dir), uintptr(unsafe.Pointer(&name)),
		uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), 0, 0)
	if errno != 0 {
		return nil, errno
	}
	return buf[:n], nil
}

// modeAt returns the mode of a file or a link, which is not followed. Its path must
// be short, and have no NUL in it.
func modeAt(dir int, path string) (uint16, error) {
	var name [pathSize]byte
	if len(path) >= len(name) {
		return 0, unix.EINVAL
	}
	copy(name[:], path)
	var st unix.Statx_t
	_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(&name)),
		unix.AT_SYMLINK_NOFOLLOW, unix.STATX_TYPE|unix.STATX_MODE, uintptr(unsafe.Pointer(&st)), 0)
	switch {
	case errno != 0:
		return 0, errno
	case st.Mask&unix.STATX_MODE == 0:
		return 0, unix.ENOSYS
	}
	return st.Mode, nil
}

// read reads once into a part of a buffer that is not empty.
func read(fd int, buf []byte) (int, error) {
	for {
		n, err := unix.Read(fd, buf)
		if err != unix.EINTR {
			return n, err
		}
	}
}

// appendPath appends the path of a process's file, from /proc on.
func appendPath(path []byte, pid int, name string) []byte {
	return append(append(strconv.AppendInt(path, int64(pid), 10), '/'), name...)
}

// ownProc is the directory /proc plus one, once it was opened, or 0.
var ownProc atomic.Int64

// procDir returns the open directory /proc, made sure to show the caller's own pid
// namespace, so that the numbers in it mean what they mean to system calls. Neither
// the namespace that a mounted /proc shows nor the caller's own ever changes, so
// this is asked once, and the directory is kept open. It must not be listed: that
// moves a position which all share.
func procDir() (int, error) {
	if dir := ownProc.Load(); dir != 0 {
		return int(dir - 1), nil
	}
	dir, err := openat(unix.AT_FDCWD, "/proc", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return -1, fmt.Errorf("open /proc: %w", typed(err))
	}
	if err := checkProc(dir); err != nil {
		_ = unix.Close(dir)
		return -1, err
	}
	if !ownProc.CompareAndSwap(0, int64(dir)+1) {
		_ = unix.Close(dir)
	}
	return int(ownProc.Load() - 1), nil
}

// checkProc makes sure that a directory is the /proc of the caller's own pid
// namespace.
func checkProc(dir int) error {
	var buf, pid [24]byte
	link, err := readlinkat(dir, "self", buf[:])
	if err != nil {
		return fmt.Errorf("proc file system: %w", &os.PathError{Op: "readlink", Path: "/proc/self", Err: err})
	}
	if !bytes.Equal(link, strconv.AppendInt(pid[:0], int64(os.Getpid()), 10)) {
		return fmt.Errorf("/proc is of another pid namespace: it calls this process %q", string(link))
	}
	return nil
}

// listProc opens /proc to be listed.
func listProc() (int, error) {
	proc, err := procDir()
	if err != nil {
		return -1, err
	}
	dir, err := openat(proc, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return -1, fmt.Errorf("open /proc: %w", typed(err))
	}
	return dir, nil
}

// readSome reads the beginning of a file, as much as fits into buf.
func readSome(dir int, path string, buf []byte) ([]byte, error) {
	fd, err := openat(dir, path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n := 0
	for n < len(buf) {
		m, err := read(fd, buf[n:])
		if err != nil {
			return nil, err
		}
		if m == 0 {
			break
		}
		n += m
	}
	return buf[:n], nil
}

// readRecord reads a file in /proc that the kernel gives in one piece to whoever
// has room for it.
func readRecord(dir int, path string, buf []byte) ([]byte, error) {
	fd, err := openat(dir, path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n, err := read(fd, buf)
	if err != nil {
		return nil, err
	}
	return buf[:n], nil
}

// readEnviron reads an environment into buf or, if it is too small, into a
// larger one. It returns the block and the buffer to use again.
//
// An open environ file belongs to the memory that the process had at that
// moment; once an exec replaced it every read is empty. So a single read is
// of one program, and after several reads one more at the beginning shows
// whether the last of them ended too early.
func readEnviron(dir int, path string, buf []byte) (block, bigger []byte, err error) {
	fd, err := openat(dir, path, unix.O_RDONLY)
	if err != nil {
		return nil, buf, err
	}
	defer unix.Close(fd)
	n, reads := 0, 0
	for {
		m, err := read(fd, buf[n:])
		if err != nil {
			return nil, buf, err
		}
		n += m
		reads++
		if n < len(buf) {
			break
		}
		if len(buf) >= maxEnviron {
			return nil, buf, fmt.Errorf("environment of more than %d bytes: %w", maxEnviron, unix.E2BIG)
		}
		larger := make([]byte, 4*len(buf))
		copy(larger, buf)
		buf = larger
	}
	if reads > 1 {
		var probe [1]byte
		if m, err := retry(func() (int, error) { return unix.Pread(fd, probe[:], 0) }); err != nil || m == 0 {
			return nil, buf, errCut
		}
	}
	return buf[:n], buf, nil
}

func ownEnviron() ([]byte, error) {
	proc, err := procDir()
	if err != nil {
		return nil, err
	}
	block, _, err := readEnviron(proc, "self/environ", make([]byte, 32<<10))
	return block, err
}

// BootID returns the random id that the kernel made at boot.
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	id := strings.TrimSpace(string(b))
	if id == "" {
		return "", errors.New("boot id: it is empty")
	}
	return id, nil
}

// knownBootID is what BootID said: it does not change.
var knownBootID atomic.Pointer[string]

func bootID() (string, error) {
	if id := knownBootID.Load(); id != nil {
		return *id, nil
	}
	id, err := BootID()
	if err == nil {
		knownBootID.Store(&id)
	}
	return id, err
}

// numbersIn appends to numbers the numeric names of an open directory.
func numbersIn(dir int, buf []byte, numbers []int) ([]int, error) {
	for {
		n, err := retry(func() (int, error) { return unix.ReadDirent(dir, buf) })
		if err != nil {
			return numbers, err
		}
		if n <= 0 {
			return numbers, nil
		}
		numbers = appendNumbers(numbers, buf[:n])
	}
}

// appendNumbers takes the numeric names out of a buffer of directory entries:
// inode (8 bytes), offset (8), length of the entry (2), type (1), name, NUL.
func appendNumbers(numbers []int, entries []byte) []int {
	const lengthAt, nameAt = 16, 19
	for len(entries) > nameAt {
		length := int(binary.NativeEndian.Uint16(entries[lengthAt:]))
		if length <= nameAt || length > len(entries) {
			break
		}
		number, ok := 0, false
		for _, c := range entries[nameAt:length] {
			if c == 0 {
				break
			}
			if c < '0' || c > '9' || number > maxPID {
				ok = false
				break
			}
			number, ok = number*10+int(c-'0'), true
		}
		if ok {
			numbers = append(numbers, number)
		}
		entries = entries[length:]
	}
	return numbers
}
