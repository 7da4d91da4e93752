#include "textflag.h"

// Jumps to functions of libSystem, which syscall6 of package syscall calls by
// their addresses, on a stack and by the conventions of C.

TEXT libc_proc_listpids_trampoline<>(SB),NOSPLIT,$0-0
	JMP	libc_proc_listpids(SB)
GLOBL	·procListPIDsAddr(SB), RODATA, $8
DATA	·procListPIDsAddr(SB)/8, $libc_proc_listpids_trampoline<>(SB)

TEXT libc_proc_pidinfo_trampoline<>(SB),NOSPLIT,$0-0
	JMP	libc_proc_pidinfo(SB)
GLOBL	·procPIDInfoAddr(SB), RODATA, $8
DATA	·procPIDInfoAddr(SB)/8, $libc_proc_pidinfo_trampoline<>(SB)

TEXT libc_proc_pidfdinfo_trampoline<>(SB),NOSPLIT,$0-0
	JMP	libc_proc_pidfdinfo(SB)
GLOBL	·procPIDFDInfoAddr(SB), RODATA, $8
DATA	·procPIDFDInfoAddr(SB)/8, $libc_proc_pidfdinfo_trampoline<>(SB)

TEXT libc_dlsym_trampoline<>(SB),NOSPLIT,$0-0
	JMP	libc_dlsym(SB)
GLOBL	·dlsymAddr(SB), RODATA, $8
DATA	·dlsymAddr(SB)/8, $libc_dlsym_trampoline<>(SB)
