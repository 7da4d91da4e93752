package probes

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/windows"
)

// maxCommandLine bounds what is told of a command line, in UTF-16 units.
const maxCommandLine = 4096

// basicInformation is PROCESS_BASIC_INFORMATION without pointers into another
// process's memory.
type basicInformation struct {
	exitStatus uintptr
	peb        uintptr
	affinity   uintptr
	priority   uintptr
	pid        uintptr
	parent     uintptr
}

func queryBasic(h windows.Handle) (basicInformation, error) {
	var basic basicInformation
	err := windows.NtQueryInformationProcess(h, windows.ProcessBasicInformation,
		unsafe.Pointer(&basic), uint32(unsafe.Sizeof(basic)), nil)
	if err != nil {
		return basic, fmt.Errorf("NtQueryInformationProcess: %w", typed(err))
	}
	return basic, nil
}

// creator returns the pid of the process that created this one, or that was
// named as its parent then. It may have exited, and its pid be another's now.
func (h *object) creator() (int, error) {
	basic, err := queryBasic(h.h)
	return int(basic.parent), err
}

// parent returns the creator's pid if the creator is still there, else 0. One
// that can't be opened is taken to be.
func (h *object) parent() (int, error) {
	pid, err := h.creator()
	if gone := h.alive(); gone != nil {
		return 0, gone
	}
	if err != nil || pid == 0 {
		return 0, err
	}
	parent, err := openHandle(pid)
	if err != nil {
		if errors.Is(err, ErrGone) {
			pid = 0
		}
		return pid, nil
	}
	defer parent.close()
	if parent.alive() != nil || !h.after(parent) {
		return 0, nil
	}
	return pid, nil
}

// after reports whether the process was created after another one.
//
// The number that Windows gives each process in turn (of Windows 10 and later,
// and undocumented) tells, if it can be had. Without it the times do, in case
// of doubt against it: they stand still for up to 16 ms.
func (h *object) after(other *object) bool {
	mine, err := h.start()
	if err != nil {
		return false
	}
	theirs, err := other.start()
	if err != nil {
		return false
	}
	mySequence, known := h.sequence()
	theirSequence, alsoKnown := other.sequence()
	if known && alsoKnown {
		return mySequence > theirSequence && mine >= theirs
	}
	return mine > theirs
}

func (h *object) sequence() (uint64, bool) {
	var number uint64
	err := windows.NtQueryInformationProcess(h.h, windows.ProcessSequenceNumber,
		unsafe.Pointer(&number), uint32(unsafe.Sizeof(number)), nil)
	return number, err == nil && number != 0
}

// info takes the name of the executable, the command line and the user of the
// process's token. User ids on Windows are no numbers: UID is -1.
func (h *object) info() (Info, error) {
	info := Info{PID: h.pid, UID: -1, State: Alive}
	var err error
	if info.PPID, err = h.parent(); err != nil {
		return Info{}, err
	}
	if info.PGID, err = h.group(); errors.Is(err, ErrGone) {
		return Info{}, err
	}
	if path, err := h.image(); err == nil {
		info.Command = filepath.Base(path)
	}
	info.Args = h.args()
	info.User = h.user()
	return info, h.alive()
}

// image returns the path of the executable.
func (h *object) image() (string, error) {
	buf := make([]uint16, windows.MAX_LONG_PATH)
	n := uint32(len(buf))
	if err := windows.QueryFullProcessImageName(h.h, 0, &buf[0], &n); err != nil {
		return "", fmt.Errorf("QueryFullProcessImageName: %w", typed(err))
	}
	return windows.UTF16ToString(buf[:n]), nil
}

// args returns the command line, cut up as the C library does it, or the path
// of the executable if the command line is withheld.
func (h *object) args() []string {
	if line := h.commandLine(); line != "" {
		if args, err := windows.DecomposeCommandLine(line); err == nil {
			return args
		}
		return []string{line}
	}
	if path, err := h.image(); err == nil {
		return []string{path}
	}
	return nil
}

func (h *object) commandLine() string {
	// A UNICODE_STRING, and behind it what it points to: 64 KiB at most.
	const textAt = int(unsafe.Sizeof(windows.NTUnicodeString{}))
	buf := make([]byte, textAt+1<<16)
	err := windows.NtQueryInformationProcess(h.h, windows.ProcessCommandLineInformation,
		unsafe.Pointer(&buf[0]), uint32(len(buf)), nil)
	if err != nil {
		return ""
	}
	length := min(int(binary.NativeEndian.Uint16(buf))/2, maxCommandLine)
	units := make([]uint16, length)
	for i := range units {
		units[i] = binary.NativeEndian.Uint16(buf[textAt+2*i:])
	}
	return string(utf16.Decode(units))
}

// user returns the name of the process's user, or its security identifier if
// it has no name; nothing if the token is withheld.
func (h *object) user() string {
	var token windows.Token
	if windows.OpenProcessToken(h.h, windows.TOKEN_QUERY, &token) != nil {
		return ""
	}
	defer token.Close()
	user, err := token.GetTokenUser()
	if err != nil {
		return ""
	}
	name, domain, _, err := user.User.Sid.LookupAccount("")
	if err != nil {
		return user.User.Sid.String()
	}
	return domain + `\` + name
}

// mayDebug reports whether the calling process may look into every other one,
// which takes the privilege SeDebugPrivilege, enabled.
func mayDebug() bool {
	var luid windows.LUID
	name, err := windows.UTF16PtrFromString("SeDebugPrivilege")
	if err != nil || windows.LookupPrivilegeValue(nil, name, &luid) != nil {
		return false
	}
	var token windows.Token
	if windows.OpenProcessToken(windows.CurrentProcess(), windows.TOKEN_QUERY, &token) != nil {
		return false
	}
	defer token.Close()
	var n uint32
	_ = windows.GetTokenInformation(token, windows.TokenPrivileges, nil, 0, &n)
	if n < uint32(unsafe.Sizeof(windows.Tokenprivileges{})) {
		return false
	}
	buf := make([]uint64, (n+7)/8) // aligned
	if windows.GetTokenInformation(token, windows.TokenPrivileges, (*byte)(unsafe.Pointer(&buf[0])), n, &n) != nil {
		return false
	}
	privileges := (*windows.Tokenprivileges)(unsafe.Pointer(&buf[0]))
	for _, p := range privileges.AllPrivileges() {
		if p.Luid == luid {
			return p.Attributes&windows.SE_PRIVILEGE_ENABLED != 0
		}
	}
	return false
}

// entry is a process as a snapshot shows it.
type entry struct{ pid, parent int }

// snapshot returns all processes but the idle one.
func snapshot() ([]entry, error) {
	h, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	if err != nil {
		return nil, os.NewSyscallError("CreateToolhelp32Snapshot", err)
	}
	defer release(h)
	var all []entry
	p := windows.ProcessEntry32{Size: uint32(unsafe.Sizeof(windows.ProcessEntry32{}))}
	for err = windows.Process32First(h, &p); err == nil; err = windows.Process32Next(h, &p) {
		if p.ProcessID != 0 {
			all = append(all, entry{pid: int(p.ProcessID), parent: int(p.ParentProcessID)})
		}
	}
	if !errors.Is(err, windows.ERROR_NO_MORE_FILES) {
		return nil, os.NewSyscallError("Process32Next", err)
	}
	return all, nil
}

// lastBorn knows no number that changes with each new process.
func lastBorn() (int, bool) { return 0, false }
