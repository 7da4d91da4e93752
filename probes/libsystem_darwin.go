package probes

import (
	"encoding/binary"
	"sync"
	"syscall"
	"unsafe"
)

// Functions of libproc, part of libSystem, which every process on macOS has
// loaded. They are called without cgo, the way in which package syscall calls
// the rest of libSystem.

//go:cgo_import_dynamic libc_proc_listpids proc_listpids "/usr/lib/libSystem.B.dylib"
//go:cgo_import_dynamic libc_proc_pidinfo proc_pidinfo "/usr/lib/libSystem.B.dylib"
//go:cgo_import_dynamic libc_proc_pidfdinfo proc_pidfdinfo "/usr/lib/libSystem.B.dylib"
//go:cgo_import_dynamic libc_dlsym dlsym "/usr/lib/libSystem.B.dylib"

// The addresses of the jumps, set in libsystem_darwin.s.
var procListPIDsAddr, procPIDInfoAddr, procPIDFDInfoAddr, dlsymAddr uintptr

// syscall6 calls a C function. It tells of errno only if the function returns
// -1, which those of libproc do not.
//
//go:linkname syscall6 syscall.syscall6
func syscall6(fn, a1, a2, a3, a4, a5, a6 uintptr) (r1, r2 uintptr, err syscall.Errno)

// Arguments of the functions, see <sys/proc_info.h>, and for the number of the
// unique identifier's flavor XNU's proc_info_private.h.
const (
	procAllPIDs           = 1  // PROC_ALL_PIDS
	procPIDListFDs        = 1  // PROC_PIDLISTFDS
	procPIDFDSocketInfo   = 3  // PROC_PIDFDSOCKETINFO
	procPIDUniqIdentifier = 17 // PROC_PIDUNIQIDENTIFIERINFO

	procFDInfoSize = 8 // struct proc_fdinfo: descriptor and type
	procFDSocket   = 2 // PROX_FDTYPE_SOCKET

	uniqIdentifierSize = 56 // struct proc_uniqidentifierinfo
	uniqIdentifierAt   = 16 // p_uniqueid
	pidVersionAt       = 32 // p_idversion
)

// procListPIDs lists the pids of all processes. The number of bytes that it
// writes is 0 for an error.
func procListPIDs(buf []byte) int {
	n, _, _ := syscall6(procListPIDsAddr, procAllPIDs, 0,
		uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)), 0, 0)
	return written(n, buf)
}

func procPIDInfo(pid, flavor int, arg uint64, buf []byte) int {
	n, _, _ := syscall6(procPIDInfoAddr, uintptr(pid), uintptr(flavor), uintptr(arg),
		uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)), 0)
	return written(n, buf)
}

func procPIDFDInfo(pid, fd, flavor int, buf []byte) int {
	n, _, _ := syscall6(procPIDFDInfoAddr, uintptr(pid), uintptr(fd), uintptr(flavor),
		uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)), 0)
	return written(n, buf)
}

// written reads the int that a function of libproc returns.
func written(n uintptr, buf []byte) int {
	size := int(int32(n))
	if size < 0 || len(buf) > 0 && size > len(buf) {
		return 0
	}
	return size
}

// uniqIdentifier is how XNU tells processes apart.
type uniqIdentifier struct {
	id      uint64 // given to no other process until the next boot; an exec does not change it
	version uint32 // the pid's version; each fork and each exec makes a new one
}

// readUniq reads the unique identifier of a process, a zombie too, of any user.
// It is false if there is no such process, or the system does not tell.
func readUniq(pid int) (uniqIdentifier, bool) {
	const zombiesToo = 1
	buf := make([]byte, uniqIdentifierSize)
	if procPIDInfo(pid, procPIDUniqIdentifier, zombiesToo, buf) != uniqIdentifierSize {
		return uniqIdentifier{}, false
	}
	return uniqIdentifier{
		id:      binary.LittleEndian.Uint64(buf[uniqIdentifierAt:]),
		version: binary.LittleEndian.Uint32(buf[pidVersionAt:]),
	}, true
}

// auditToken names a version of a pid to proc_signal_with_audittoken, which
// reads the pid and the version alone.
type auditToken [8]uint32

func newAuditToken(pid int, version uint32) *auditToken {
	return &auditToken{5: uint32(pid), 7: version}
}

// signalWithAuditToken returns the address of that function, or 0. XNU has had
// it since macOS 14.2, so that a program that was linked with it would not
// start on older systems.
var signalWithAuditToken = sync.OnceValue(func() uintptr {
	const rtldDefault = ^uintptr(1) // RTLD_DEFAULT, (void *)-2
	name := []byte("proc_signal_with_audittoken\x00")
	addr, _, _ := syscall6(dlsymAddr, rtldDefault, uintptr(unsafe.Pointer(unsafe.SliceData(name))), 0, 0, 0, 0)
	return addr
})

// signalVersion sends a signal to the process that has this version of the pid,
// which the kernel compares while it holds the process: a stranger is never
// hit. The error is ESRCH if the pid has another version by now, and ENOSYS on
// systems that can't do it.
func signalVersion(token *auditToken, sig syscall.Signal) error {
	fn := signalWithAuditToken()
	if fn == 0 {
		return syscall.ENOSYS
	}
	// It returns the error itself; a version of it that returned -1 and set
	// errno would be understood as well.
	r, _, errno := syscall6(fn, uintptr(unsafe.Pointer(token)), uintptr(sig), 0, 0, 0, 0)
	switch code := int32(r); {
	case code == 0:
		return nil
	case code < 0 && errno != 0:
		return errno
	case code < 0:
		return syscall.EINVAL
	default:
		return syscall.Errno(code)
	}
}
