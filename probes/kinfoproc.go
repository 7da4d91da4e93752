package probes

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// kinfoSize is the size of FreeBSD's struct kinfo_proc on 64 bits (amd64,
// arm64, riscv64, powerpc64), which has been the same since FreeBSD 5.
// Structures of another size are refused.
const kinfoSize = 1088

// Where its fields are, see <sys/user.h>.
const (
	kinfoStructSizeAt = 0
	kinfoPIDAt        = 72
	kinfoParentAt     = 76
	kinfoGroupAt      = 80
	kinfoUIDAt        = 168 // effective
	kinfoStartAt      = 336 // struct timeval
	kinfoFlagsAt      = 368
	kinfoStateAt      = 388
	kinfoCommandAt    = 447
	kinfoCommandSize  = 20
)

// States and flags, see <sys/proc.h>. The other states are SIDL 1, SRUN 2,
// SSLEEP 3, SSTOP 4, SWAIT 6 and SLOCK 7.
const (
	kinfoZombie = 5          // SZOMB
	kinfoKernel = 0x00000004 // P_KPROC
	kinfoExeced = 0x00004000 // P_EXEC
	kinfoSystem = 0x00000200 // P_SYSTEM
)

// kinfo is what the kernel says of a process.
type kinfo struct {
	pid, ppid, pgid, uid int
	start                uint64 // microseconds since 1970, by the clock of now
	flags                uint64
	state                byte
	command              string
}

var errKinfo = errors.New("malformed kinfo_proc")

// parseKinfo reads the structures that sysctl kern.proc gives, one after the
// other, of a machine with the low byte first.
func parseKinfo(b []byte) ([]kinfo, error) {
	var all []kinfo
	for len(b) > 0 {
		if len(b) < kinfoSize {
			return nil, fmt.Errorf("%w: %d bytes are left", errKinfo, len(b))
		}
		if size := binary.LittleEndian.Uint32(b[kinfoStructSizeAt:]); size != kinfoSize {
			return nil, fmt.Errorf("%w: its size is %d, not %d", errKinfo, size, kinfoSize)
		}
		number := func(at int) int { return int(int32(binary.LittleEndian.Uint32(b[at:]))) }
		seconds, micros := binary.LittleEndian.Uint64(b[kinfoStartAt:]), binary.LittleEndian.Uint64(b[kinfoStartAt+8:])
		command := b[kinfoCommandAt : kinfoCommandAt+kinfoCommandSize]
		if i := bytes.IndexByte(command, 0); i >= 0 {
			command = command[:i]
		}
		all = append(all, kinfo{
			pid:     number(kinfoPIDAt),
			ppid:    number(kinfoParentAt),
			pgid:    number(kinfoGroupAt),
			uid:     int(binary.LittleEndian.Uint32(b[kinfoUIDAt:])),
			start:   seconds*1e6 + micros,
			flags:   binary.LittleEndian.Uint64(b[kinfoFlagsAt:]),
			state:   b[kinfoStateAt],
			command: string(command),
		})
		b = b[kinfoSize:]
	}
	return all, nil
}
