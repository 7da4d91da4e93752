package marker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrProcArgs says that what was read is not an argument blob, or not a whole
// one. It says nothing of the process: if that executed another program during
// the reading, the next reading will do better.
var ErrProcArgs = errors.New("malformed argument blob")

// ProcArgs is what macOS shows of the start of a process.
type ProcArgs struct {
	Path string   // as it was given to exec
	Args []string // the first may be any string, an empty one too
	// Environ is the environment block, for Parse and Scan. It is part of the
	// blob that was parsed.
	Environ []byte
	// Withheld says that the system kept the environment back, as it does for
	// the programs that are its own. An environment that is truly empty is not
	// withheld.
	Withheld bool
}

// The layout of a blob: argc (a 32-bit integer in the machine's byte order),
// then the strings that exec put on the new program's stack.
const (
	procArgsCount = 4 // size of argc
	procArgsAlign = 8 // of argv and of the Apple strings, counted from the path
)

// applePrefix is what the first of the Apple strings begins with, the
// parameters that the kernel passes to the dynamic linker.
const applePrefix = "pfz=0x"

// ParseProcArgs reads the blob that macOS gives for sysctl KERN_PROCARGS2:
//
//	argc
//	path NUL, and NULs up to a multiple of 8
//	argc strings, each with its NUL
//	the environment, the same
//	NULs up to a multiple of 8, and the Apple strings
//
// If the environment is withheld, the blob ends after the arguments, or after as
// many strings more as there are empty arguments at the beginning: the kernel
// takes these for padding when it looks for the end. Programs that withhold
// their arguments as well seem to have one, the path, which two NULs precede.
//
// The strings lie in the memory of the process, which may have changed them; and a
// process that executes another program while the blob is read can cost it its
// front. So argc must be matched by what follows: else the error wraps
// ErrProcArgs.
//
// Where a blob has no Apple strings, all that follows the arguments is taken to
// be the environment.
func ParseProcArgs(blob []byte) (ProcArgs, error) {
	var a ProcArgs
	if len(blob) < procArgsCount {
		return a, badProcArgs("%d bytes are no argument count", len(blob))
	}
	argc := int64(int32(binary.NativeEndian.Uint32(blob)))
	rest := blob[procArgsCount:]
	// Each argument takes a byte at least, so this bounds the loop below.
	if argc < 0 || argc > int64(len(rest)) {
		return a, badProcArgs("%d arguments in %d bytes", argc, len(rest))
	}
	path, _, ok := bytes.Cut(rest, []byte{0})
	switch {
	case !ok:
		return a, badProcArgs("the path does not end")
	case len(path) == 0:
		return a, badProcArgs("there is no path")
	}
	if argc == 1 && len(rest) == 2*len(path)+3 && rest[len(path)+1] == 0 &&
		string(rest[len(path)+2:]) == string(rest[:len(path)+1]) {
		return ProcArgs{Path: string(path), Args: []string{string(path)}, Withheld: true}, nil
	}
	at := alignProcArgs(len(path) + 1)
	if at > len(rest) {
		if argc == 0 {
			return ProcArgs{Path: string(path), Withheld: true}, nil
		}
		return a, badProcArgs("it ends at the path")
	}
	for _, c := range rest[len(path):at] {
		if c != 0 {
			return a, badProcArgs("the path is not followed by NULs")
		}
	}
	a.Path = string(path)
	empty := 0
	for i := range argc {
		arg, _, ok := bytes.Cut(rest[at:], []byte{0})
		if !ok {
			return ProcArgs{}, badProcArgs("%d arguments where %d should be", i, argc)
		}
		if len(arg) == 0 && empty == len(a.Args) {
			empty++
		}
		a.Args = append(a.Args, string(arg))
		at += len(arg) + 1
	}
	tail := rest[at:]
	// The strings that the kernel left there instead of the empty arguments. (A
	// process with more empty arguments at the beginning than it has variables
	// and Apple strings is taken for one whose environment is withheld.)
	more := tail
	if empty == len(a.Args) {
		more = bytes.TrimLeft(tail, "\x00")
	}
	if bytes.Count(more, []byte{0}) <= empty || len(bytes.TrimRight(more, "\x00")) == 0 {
		a.Withheld = true
		return a, nil
	}
	a.Environ = tail
	if apple := appleStrings(rest, at); apple >= 0 {
		// The padding before them is no more than an empty entry or seven.
		a.Environ = rest[at:apple]
	}
	return a, nil
}

// appleStrings returns where the Apple strings begin, or -1. They are the last
// that begin so: a variable of the environment may look like them.
func appleStrings(strings []byte, from int) int {
	for end := len(strings); ; {
		i := bytes.LastIndex(strings[from:end], []byte(applePrefix))
		if i < 0 {
			return -1
		}
		i += from
		if i%procArgsAlign == 0 && strings[i-1] == 0 {
			return i
		}
		end = i
	}
}

func alignProcArgs(n int) int { return (n + procArgsAlign - 1) / procArgsAlign * procArgsAlign }

func badProcArgs(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProcArgs, fmt.Sprintf(format, args...))
}
