package probes

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/windows"
)

// maxEnviron bounds what is read of one environment.
const maxEnviron = 8 << 20

// readRights are what it takes to look into the memory of a process.
const readRights = windows.PROCESS_QUERY_LIMITED_INFORMATION | windows.PROCESS_VM_READ

// environ takes one look at the process's environment, in its memory: Windows
// has no other place for it. The block is the live one, which the process
// changes by SetEnvironmentVariable. Failures that may pass are errAgain.
func (h *object) environ() (environ, error) {
	memory, err := h.reopen(readRights)
	if err != nil {
		return environ{}, unreadableUnlessGone(err)
	}
	defer release(memory)
	raw, err := readEnviron(memory)
	if gone := h.alive(); gone != nil {
		return environ{}, unreadableUnlessGone(gone)
	}
	var block []byte
	if err == nil {
		block, err = decodeEnviron(raw)
	}
	if err != nil {
		return environ{}, err
	}
	return environ{block: block}, nil
}

func unreadable(err error) error { return fmt.Errorf("%w: %w", ErrUnreadable, err) }

func unreadableUnlessGone(err error) error {
	if errors.Is(err, ErrGone) {
		return err
	}
	return unreadable(err)
}

// errCut says that a block changed under the reading.
var errCut = errors.New("environment changed while it was read")

// readEnviron reads the block out of a process's memory, in UTF-16.
//
// NtQueryInformationProcess says where the process environment block (PEB) is,
// that where the parameters of the process are, and these where its environment
// is and how large. A change of the environment makes a new version of it, in
// place or elsewhere, so what was read is whole if the parameters stayed.
func readEnviron(memory windows.Handle) ([]byte, error) {
	if err := sameWidth(memory); err != nil {
		return nil, err
	}
	before, err := readParameters(memory)
	if err != nil {
		return nil, err
	}
	if before.environ == 0 || before.environSize < 2 {
		return nil, errAgain{unreadable(errors.New("it is not there yet"))}
	}
	if before.environSize > maxEnviron {
		return nil, errAgain{unreadable(fmt.Errorf("it is of more than %d bytes", maxEnviron))}
	}
	raw := make([]byte, before.environSize)
	if err := readMemory(memory, before.environ, raw); err != nil {
		return nil, err
	}
	after, err := readParameters(memory)
	if err != nil {
		return nil, err
	}
	if before != after {
		return nil, errAgain{unreadable(errCut)}
	}
	return raw, nil
}

// sameWidth refuses a process whose pointers are not as wide as the caller's.
// A 32-bit process on 64-bit Windows has two blocks, and it is not the one that
// a 64-bit process would look at that it itself uses.
func sameWidth(h windows.Handle) error {
	var theirs, ours bool
	if err := windows.IsWow64Process(h, &theirs); err != nil {
		return unreadable(fmt.Errorf("IsWow64Process: %w", typed(err)))
	}
	if err := windows.IsWow64Process(windows.CurrentProcess(), &ours); err != nil {
		return unreadable(fmt.Errorf("IsWow64Process: %w", typed(err)))
	}
	if theirs != ours {
		return unreadable(fmt.Errorf("one of the processes is of 32 bits, the other of 64: %w", errors.ErrUnsupported))
	}
	return nil
}

// parameters is what this package reads of a process's parameters. Addresses
// are the other process's: they must not be kept in pointers.
type parameters struct {
	environ        uintptr
	environSize    uintptr
	environVersion uintptr
	group          uint32 // the console process group
}

// Where the fields are.
const (
	pebParametersAt  = unsafe.Offsetof(windows.PEB{}.ProcessParameters)
	environAt        = unsafe.Offsetof(windows.RTL_USER_PROCESS_PARAMETERS{}.Environment)
	environSizeAt    = unsafe.Offsetof(windows.RTL_USER_PROCESS_PARAMETERS{}.EnvironmentSize)
	environVersionAt = unsafe.Offsetof(windows.RTL_USER_PROCESS_PARAMETERS{}.EnvironmentVersion)
	groupAt          = unsafe.Offsetof(windows.RTL_USER_PROCESS_PARAMETERS{}.ProcessGroupId)
	parametersSize   = groupAt + 4
)

func readParameters(memory windows.Handle) (parameters, error) {
	basic, err := queryBasic(memory)
	if err != nil {
		return parameters{}, unreadable(err)
	}
	if basic.peb == 0 {
		// A process that is just being made; the system's own have none.
		return parameters{}, errAgain{unreadable(errors.New("the process has no environment block"))}
	}
	var buf [parametersSize]byte
	pointer := buf[:unsafe.Sizeof(uintptr(0))]
	if err := readMemory(memory, basic.peb+pebParametersAt, pointer); err != nil {
		return parameters{}, err
	}
	at := word(pointer)
	if at == 0 {
		return parameters{}, errAgain{unreadable(errors.New("the process has no parameters yet"))}
	}
	if err := readMemory(memory, at, buf[:]); err != nil {
		return parameters{}, err
	}
	return parameters{
		environ:        word(buf[environAt:]),
		environSize:    word(buf[environSizeAt:]),
		environVersion: word(buf[environVersionAt:]),
		group:          binary.NativeEndian.Uint32(buf[groupAt:]),
	}, nil
}

// word reads a number that is as wide as a pointer.
func word(b []byte) uintptr {
	if unsafe.Sizeof(uintptr(0)) == 4 {
		return uintptr(binary.NativeEndian.Uint32(b))
	}
	return uintptr(binary.NativeEndian.Uint64(b))
}

// readMemory fills buf. What is not mapped may be so in a moment, when the
// process is just starting or moving its environment.
func readMemory(memory windows.Handle, at uintptr, buf []byte) error {
	var n uintptr
	err := windows.ReadProcessMemory(memory, at, &buf[0], uintptr(len(buf)), &n)
	switch {
	case errors.Is(err, windows.ERROR_PARTIAL_COPY), errors.Is(err, windows.ERROR_NOACCESS),
		err == nil && n != uintptr(len(buf)):
		return errAgain{unreadable(fmt.Errorf("ReadProcessMemory: %d of %d bytes", n, len(buf)))}
	case err != nil:
		return unreadable(fmt.Errorf("ReadProcessMemory: %w", typed(err)))
	}
	return nil
}

// decodeEnviron turns a block as Windows has it (entries in UTF-16, a NUL after
// each, an empty entry at the end, and perhaps room behind it) into one as
// marker.Parse wants it.
func decodeEnviron(raw []byte) ([]byte, error) {
	units := make([]uint16, 0, len(raw)/2)
	for i := 0; i+1 < len(raw); i += 2 {
		unit := binary.LittleEndian.Uint16(raw[i:])
		if unit == 0 && (len(units) == 0 || units[len(units)-1] == 0) {
			return []byte(string(utf16.Decode(units))), nil
		}
		units = append(units, unit)
	}
	return nil, errAgain{unreadable(errors.New("it has no end"))}
}

// ownEnviron returns the block that others see, which os.Setenv changes.
func ownEnviron() ([]byte, error) {
	raw, err := readEnviron(windows.CurrentProcess())
	if err != nil {
		return nil, err
	}
	return decodeEnviron(raw)
}
