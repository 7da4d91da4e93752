package probes

import (
	"fmt"
	"strings"
	"testing"
)

func FuzzSocketInode(f *testing.F) {
	f.Add("socket:[4711]", uint64(4711))
	f.Add("socket:[99999999999999999999]", uint64(1<<64-1))
	f.Add("socket:[]", uint64(0))
	f.Fuzz(func(t *testing.T, link string, inode uint64) {
		if n, ok := socketInode([]byte(link)); ok && !strings.Contains(link, fmt.Sprint(n)) {
			t.Errorf("%q: %d", link, n)
		}
		if n, ok := socketInode(fmt.Appendf(nil, "socket:[%d]", inode)); !ok || n != inode {
			t.Errorf("%d: %d, %t", inode, n, ok)
		}
	})
}

func FuzzSplitArgs(f *testing.F) {
	f.Add([]byte("cat\x00-n\x00"))
	f.Add([]byte("\x00\x00"))
	f.Add([]byte("title    \x00\x00\x00"))
	f.Fuzz(func(t *testing.T, line []byte) {
		args := splitArgs(line)
		if back := strings.Join(args, "\x00"); back != strings.TrimRight(string(line), "\x00") {
			t.Errorf("%q: %q", line, args)
		}
	})
}

func FuzzParsePidfdInfo(f *testing.F) {
	f.Add([]byte("pos:\t0\nflags:\t02000002\nmnt_id:\t15\nPid:\t4711\nNSpid:\t4711\n"), 4711)
	f.Add([]byte("Pid:\t-1\n"), -1)
	f.Add([]byte("Pid:"), 0)
	f.Fuzz(func(t *testing.T, text []byte, pid int) {
		_, _ = parsePidfdInfo(text)
		if got, err := parsePidfdInfo(fmt.Appendf(nil, "pos:\t0\nPid:\t%d\nNSpid:\t1\n", pid)); err != nil || got != pid {
			t.Errorf("%d: %d, %v", pid, got, err)
		}
	})
}

func FuzzParseLastBorn(f *testing.F) {
	f.Add("0.20 0.18 0.12 1/80 11206\n")
	f.Add("1 2 3 4 -5")
	f.Fuzz(func(t *testing.T, text string) {
		if pid, ok := parseLastBorn(text); ok && (pid < 0 || !strings.Contains(text, strings.TrimLeft(fmt.Sprint(pid), "0"))) {
			t.Errorf("%q: %d", text, pid)
		}
	})
}
