package probes

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

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
		if err != unix.EINTR {
			return v, err
		}
	}
}

func openat(dir int, path string, flags int) (int, error) {
	return retry(func() (int, error) { return unix.Openat(dir, path, flags|unix.O_CLOEXEC, 0) })
}

// procPath returns the path of a process's file in /proc.
func procPath(pid int, name string) string {
	return "/proc/" + strconv.Itoa(pid) + "/" + name
}

// checkProc makes sure that /proc shows the caller's own pid namespace, so
// that the numbers in it mean what they mean to system calls.
func checkProc() error {
	link, err := os.Readlink("/proc/self")
	if err != nil {
		return fmt.Errorf("proc file system: %w", err)
	}
	if link != strconv.Itoa(os.Getpid()) {
		return fmt.Errorf("/proc is of another pid namespace: it calls this process %q", link)
	}
	return nil
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
		m, err := retry(func() (int, error) { return unix.Read(fd, buf[n:]) })
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
		m, err := retry(func() (int, error) { return unix.Read(fd, buf[n:]) })
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
	if err := checkProc(); err != nil {
		return nil, err
	}
	block, _, err := readEnviron(unix.AT_FDCWD, "/proc/self/environ", make([]byte, 32<<10))
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
