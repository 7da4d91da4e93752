package probes

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// statLine writes a line as the kernel does.
func statLine(s stat) string {
	fields := make([]string, 50)
	for i := range fields {
		fields[i] = "0"
	}
	fields[fieldState] = string(s.state)
	fields[5] = "-1" // the terminal's group
	fields[fieldParent] = fmt.Sprint(s.ppid)
	fields[fieldGroup] = fmt.Sprint(s.pgid)
	fields[fieldFlags] = fmt.Sprint(s.flags)
	fields[fieldThreads] = fmt.Sprint(s.threads)
	fields[fieldStart] = fmt.Sprint(s.start)
	fields[fieldEnvStart] = fmt.Sprint(s.envStart)
	fields[fieldEnvEnd] = fmt.Sprint(s.envEnd)
	return "4711 (" + s.comm + ") " + strings.Join(fields, " ") + "\n"
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	for _, comm := range []string{"cat", "", ")", "(", "a b) S 1 2", ") R 1 1 1 (", "a\nb", "\xff\x01", "(sd-pam)"} {
		want := stat{
			comm: comm, state: 'S', ppid: 1, pgid: 2, flags: taskForkedNoExec, threads: 3,
			start: 1<<64 - 1, envStart: 5, envEnd: 6,
		}
		if got, err := parseStat([]byte(statLine(want))); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", comm, got, err, want)
		}
	}
	for _, line := range []string{
		"", "1", "1 (a", "1 )a(", "1 (a)", "1 (a) S 1", "1 (a) SS" + strings.Repeat(" 1", 50),
		"1 (a) S x" + strings.Repeat(" 1", 50), "1 (a) S" + strings.Repeat(" 1", 18),
	} {
		if got, err := parseStat([]byte(line)); err == nil {
			t.Errorf("%q is parsed as %+v", line, got)
		}
	}
	// Kernels before 3.5 have no bounds of the environment.
	short := statLine(stat{comm: "a", state: 'R', start: 9})
	short = strings.Join(strings.Fields(short)[:40], " ")
	if got, err := parseStat([]byte(short)); err != nil || got.start != 9 {
		t.Errorf("%q: %+v, %v", short, got, err)
	}
}

// The kernel's own line of a process with a name that is made to mislead.
func TestParseStatOfMisleadingName(t *testing.T) {
	t.Parallel()
	h := start(t, "rename", ") S 1 1 1 (")
	p := open(t, h.pid())
	info, err := p.Info()
	if err != nil || info.Command != ") S 1 1 1 (" || info.PPID != os.Getpid() {
		t.Errorf("Info = %+v, %v", info, err)
	}
	b, err := p.Birth()
	if err != nil || b.Start < 100 {
		t.Errorf("Birth = %+v, %v", b, err)
	}
}

func partRename(name string) {
	if err := os.WriteFile(fmt.Sprintf("/proc/self/task/%d/comm", os.Getpid()), []byte(name), 0); err != nil {
		fatal(err)
	}
	ready(os.Getpid())
	untilEOF()
}

func FuzzParseStat(f *testing.F) {
	f.Add("cat", byte('S'), 1, 2, uint64(4194560), 1, uint64(1234), []byte("1 (a) S"))
	f.Add(") S 1 (", byte('Z'), 0, -1, uint64(0), 0, uint64(0), []byte(""))
	f.Fuzz(func(t *testing.T, comm string, state byte, ppid, pgid int, flags uint64, threads int, start uint64, junk []byte) {
		_, _ = parseStat(junk)
		if state <= ' ' || state > '~' || state == ')' || strings.ContainsRune(comm, 0) {
			return
		}
		want := stat{comm: comm, state: state, ppid: ppid, pgid: pgid, flags: flags, threads: threads, start: start}
		if got, err := parseStat([]byte(statLine(want))); err != nil || got != want {
			t.Fatalf("%+v, %v, want %+v", got, err, want)
		}
	})
}

func TestNumbersIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"1", "42", "4711x", "x1", "99999999999999999999", "007"} {
		if err := os.WriteFile(dir+"/"+name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fd, err := openat(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	got, err := numbersIn(fd, make([]byte, 256), nil)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, n := range got {
		sum += n
	}
	if len(got) != 3 || sum != 1+42+7 {
		t.Errorf("numbers are %v", got)
	}
}

func FuzzAppendNumbers(f *testing.F) {
	f.Add([]byte("12345678" + "12345678" + "\x18\x00" + "\x04" + "4711\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, n := range appendNumbers(nil, b) {
			if n < 0 {
				t.Fatalf("number %d", n)
			}
		}
	})
}
