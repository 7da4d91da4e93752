package probes

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// System calls that golang.org/x/sys/windows lacks, or declares so that a
// buffer could move away under them.
var (
	kernel32 = windows.NewLazySystemDLL("kernel32.dll")
	iphlpapi = windows.NewLazySystemDLL("iphlpapi.dll")
	ntdll    = windows.NewLazySystemDLL("ntdll.dll")

	procGetConsoleProcessList     = kernel32.NewProc("GetConsoleProcessList")
	procIsProcessInJob            = kernel32.NewProc("IsProcessInJob")
	procQueryInformationJobObject = kernel32.NewProc("QueryInformationJobObject")
	procSetInformationJobObject   = kernel32.NewProc("SetInformationJobObject")
	procGetExtendedTCPTable       = iphlpapi.NewProc("GetExtendedTcpTable")
	procWineGetVersion            = ntdll.NewProc("wine_get_version")
)

// wineVersion returns the version of wine, or nothing on Windows itself.
func wineVersion() string {
	if procWineGetVersion.Find() != nil {
		return ""
	}
	text, _, _ := procWineGetVersion.Call()
	return windows.BytePtrToString(*(**byte)(unsafe.Pointer(&text)))
}

// consolePIDs returns the processes on the caller's console, nil if it has none.
func consolePIDs() []uint32 {
	pids := make([]uint32, 64)
	for {
		n, _, _ := procGetConsoleProcessList.Call(uintptr(unsafe.Pointer(&pids[0])), uintptr(len(pids)))
		if int(n) <= len(pids) {
			return pids[:n]
		}
		// It filled in nothing, and said how many there are.
		pids = make([]uint32, 2*n)
	}
}

// release closes a handle of the caller's own, which can't fail.
func release(h windows.Handle) { _ = windows.CloseHandle(h) }
