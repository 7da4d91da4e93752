package probes

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// cKinfo is the beginning of struct kinfo_proc of <sys/user.h>, in Go's words;
// the rest is not read.
type cKinfo struct {
	structSize, layout                    int32
	pointers                              [8]uint64 // ki_args to ki_wchan
	pid, ppid, pgid, tpgid, sid, tsid     int32
	jobc, spare1                          int16
	tdev                                  uint32
	siglist, sigmask, sigignore, sigcatch [4]uint32
	uid, ruid, svuid, rgid, svgid         uint32
	ngroups, spare2                       int16
	groups                                [16]uint32
	size                                  uint64
	rssize, swrss, tsize, dsize, ssize    int64
	xstat, acflag                         uint16
	pctcpu, estcpu, slptime, swtime, cow  uint32
	runtime                               uint64
	start, childTime                      [2]int64
	flag, kiflag                          int64
	traceflag                             int32
	stat                                  byte
	nice                                  int8
	lock, rqindex, oncpu, lastcpu         byte
	tdname                                [17]byte
	wmesg                                 [9]byte
	login                                 [18]byte
	lockname                              [9]byte
	comm                                  [20]byte
	emul                                  [17]byte
	loginclass                            [18]byte
	moretdname                            [4]byte
	rest                                  [1088 - 506]byte
}

func (k cKinfo) bytes() []byte {
	b := unsafe.Slice((*byte)(unsafe.Pointer(&k)), unsafe.Sizeof(k))
	return append([]byte(nil), b...)
}

func someKinfo(pid int32, comm string) cKinfo {
	k := cKinfo{
		structSize: 1088, pid: pid, ppid: 2, pgid: 3, uid: 65534, stat: 5, flag: 0x10004000,
		start: [2]int64{1_700_000_000, 123_456},
	}
	copy(k.comm[:], comm)
	return k
}

func TestParseKinfo(t *testing.T) {
	t.Parallel()
	needSameLayout(t)
	if size := unsafe.Sizeof(cKinfo{}); size != kinfoSize {
		t.Fatalf("the structure has %d bytes", size)
	}
	a, b := someKinfo(4711, "cat"), someKinfo(815, strings.Repeat("x", 25))
	got, err := parseKinfo(append(a.bytes(), b.bytes()...))
	want := []kinfo{
		{pid: 4711, ppid: 2, pgid: 3, uid: 65534, start: 1_700_000_000_123_456, flags: 0x10004000, state: kinfoZombie, command: "cat"},
		{pid: 815, ppid: 2, pgid: 3, uid: 65534, start: 1_700_000_000_123_456, flags: 0x10004000, state: kinfoZombie, command: strings.Repeat("x", 20)},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if got, err := parseKinfo(nil); err != nil || len(got) > 0 {
		t.Errorf("nothing: %+v, %v", got, err)
	}
	other := someKinfo(1, "a")
	other.structSize = 1096
	for name, b := range map[string][]byte{
		"cut":          a.bytes()[:1087],
		"one and half": append(a.bytes(), b.bytes()[:500]...),
		"another size": other.bytes(),
		"32 bits":      binary.LittleEndian.AppendUint32(nil, 768),
		"zeros":        make([]byte, 1088),
	} {
		if got, err := parseKinfo(b); !errors.Is(err, errKinfo) || got != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func FuzzParseKinfo(f *testing.F) {
	k := someKinfo(4711, "cat")
	f.Add(k.bytes())
	f.Add([]byte{0x40, 4, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parseKinfo(b)
		if err == nil && len(got)*kinfoSize != len(b) {
			t.Fatalf("%d bytes give %d", len(b), len(got))
		}
	})
}
