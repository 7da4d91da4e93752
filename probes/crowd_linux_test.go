package probes

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plughost/plughost/shared/marker"
)

// crowdScript starts as many processes as its argument says, which do nothing
// until the end of the input that they share: forks of the shell, with its
// environment, as an exec for each would take most of the time. With "marked" it
// says the pid of each. It has reaped all of them when it ends.
const crowdScript = `
exec 3<&0
i=0
while [ $i -lt $1 ]; do
	{ read line <&3; } >/dev/null &
	if [ "$2" = marked ]; then echo $!; fi
	i=$((i+1))
done
echo ready
read line <&3
wait`

// crowd starts processes for the others to be found among, and returns their
// pids if they carry a marker. They end with the test, and with the test binary
// if that is killed.
func crowd(tb testing.TB, size int, id marker.Identity) []int {
	tb.Helper()
	if size == 0 {
		return nil
	}
	kind := "unmarked"
	if !id.IsZero() {
		kind = "marked"
	}
	cmd := exec.Command("/bin/sh", "-c", crowdScript, "crowd", strconv.Itoa(size), kind)
	cmd.Env = append(marker.Scrub(withoutPart()), id.Environ()...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = in.Close()
		// It ends when all of the others have ended.
		if err := cmd.Wait(); err != nil {
			tb.Errorf("crowd: %v", err)
		}
	})
	var all []int
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == "ready" {
			if !id.IsZero() {
				all = append(all, cmd.Process.Pid)
			}
			slices.Sort(all)
			return all
		}
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			tb.Fatalf("crowd says %q", lines.Text())
		}
		all = append(all, pid)
	}
	tb.Fatal("crowd says nothing: is there room for so many processes?")
	return nil
}

// Among thousands of processes, List finds just those that are marked.
func TestListCrowd(t *testing.T) {
	id, _ := ids(t)
	second := id
	second.Instance += "-b"
	size := 5000
	if testing.Short() {
		size = 500
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &limit); err == nil && limit.Cur < uint64(2*size) && os.Geteuid() != 0 {
		t.Skipf("only %d processes are allowed", limit.Cur)
	}
	const few = 20
	first := crowd(t, few, id)
	crowd(t, size/2, marker.Identity{})
	other := crowd(t, few, second)
	crowd(t, size/2-2*few, marker.Identity{})
	both := slices.Sorted(slices.Values(slices.Concat(first, other)))
	for _, tt := range []struct {
		f    Filter
		want []int
	}{
		{Filter{Instance: id.Instance}, first},
		{Filter{Instance: second.Instance}, other},
		{Filter{Installation: id.Installation}, both},
		{Filter{Installation: id.Installation + "x"}, nil},
	} {
		found, err := List(t.Context(), tt.f)
		if got := pids(found); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %v, %v, want %v", tt.f, got, err, tt.want)
		}
	}
}

// Processes that have executed nothing since they were forked are looked at again,
// after pauses; a scan does not make them wait for one another.
func TestForkedProcessesAreExaminedSideBySide(t *testing.T) {
	id, _ := ids(t)
	const many = 8
	all := crowd(t, many-1, id) // and its shell
	var held atomic.Int32
	together := make(chan struct{})
	testHook = func(s step) {
		if s != stepHeld {
			return
		}
		if held.Add(1) == many {
			close(together)
		}
		select {
		case <-together:
		case <-time.After(30 * time.Second):
			t.Errorf("only %d of %d are examined at once", held.Load(), many)
		}
	}
	defer func() { testHook = nil }()
	found, err := List(t.Context(), Filter{Instance: id.Instance})
	if got := pids(found); err != nil || !slices.Equal(got, all) {
		t.Errorf("found %v, %v, want %v", got, err, all)
	}
}

// Environments that just fit the buffers, and some that do not, are read whole.
func TestReadEnvironSizes(t *testing.T) {
	t.Parallel()
	id, _ := ids(t)
	marks := strings.Join(id.Environ(), "\x00") + "\x00"
	for _, size := range []int{
		4 << 10, 32<<10 - 1, 32 << 10, 32<<10 + 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 128 << 10,
		256<<10 - 1, 256 << 10, 256<<10 + 1, 1<<20 - 1, 1 << 20, 1<<20 + 1, 3 << 19,
	} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			t.Parallel()
			var env []string
			left := size - len(marks)
			for i := 0; left > 0; i++ {
				// An entry must not be greater than 128 KiB.
				name := fmt.Sprintf("FILLER_%d=", i)
				n := min(left, 100<<10)
				if rest := left - n; rest > 0 && rest < 100 {
					n -= 100
				}
				env = append(env, name+strings.Repeat("x", n-len(name)-1))
				left -= n
			}
			h := startShellEnv(t, append(env, id.Environ()...))
			p := open(t, h)
			if got, err := p.Marker(); err != nil || got != id {
				t.Errorf("Marker = %+v, %v", got, err)
			}
			block, err := os.ReadFile(procPath(h, "environ"))
			if err != nil || len(block) != size {
				t.Errorf("the block has %d bytes, %v", len(block), err)
			}
			for _, first := range []int{1, 4 << 10, 32 << 10, 64 << 10, size - 1, size, size + 1, size + 2} {
				got, _, err := readEnviron(unix.AT_FDCWD, procPath(h, "environ"), make([]byte, first))
				if err != nil || string(got) != string(block) {
					t.Errorf("into %d bytes: %d bytes, %v", first, len(got), err)
				}
			}
		})
	}
}

// startShellEnv starts a shell with just that environment.
func startShellEnv(t *testing.T, env []string) int {
	t.Helper()
	h := startShell(t, "echo ready; read line", func(cmd *exec.Cmd) { cmd.Env = env })
	return h.pid()
}

// Processes that are not sought cost a scan no memory, however many there are.
func TestScanDoesNotAllocate(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	scans := map[string]func() error{
		"List": func() error {
			_, err := List(t.Context(), Filter{Installation: "none of them"})
			return err
		},
		"Listeners": func() error {
			_, err := Listeners(t.Context(), l.Addr().(*net.TCPAddr).Port)
			return err
		},
	}
	count := func() map[string]float64 {
		allocs := map[string]float64{}
		for name, scan := range scans {
			allocs[name] = testing.AllocsPerRun(5, func() {
				if err := scan(); err != nil {
					t.Error(err)
				}
			})
		}
		return allocs
	}
	const more = 1000
	crowd(t, 10, marker.Identity{})
	few := count()
	crowd(t, more, marker.Identity{})
	for name, many := range count() {
		t.Logf("%s allocates %v times, and %v times with %d processes more", name, few[name], many, more)
		// Others on the machine come and go, and are looked at again.
		if many > few[name]+more/4 {
			t.Errorf("%s allocates %v times, and %v times with %d processes more", name, few[name], many, more)
		}
	}
}
