package probes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	psnet "github.com/shirou/gopsutil/v4/net"
	psprocess "github.com/shirou/gopsutil/v4/process"
	"golang.org/x/sys/unix"

	"github.com/plughost/plughost/shared/marker"
)

// sizes are how many processes there are beside those of the machine.
var sizes = []int{100, 1000, 5000}

// rival is another way to the same answer.
type rival struct {
	name string // in the metrics
	run  func() error
}

// compare measures a function, and then how many times longer its rivals take:
// all of them in turns, for what the machine does beside it to hit all alike. The
// metrics are "x-vs-NAME", the ratio of the medians, and "NAME-ns", the rival's
// own. A rival that fails is left out.
func compare(b *testing.B, turns int, own func() error, rivals ...rival) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		if err := own(); err != nil {
			b.Fatal(err)
		}
	}
	// A function that is over at once is repeated, for the clock's sake.
	repeats := 1
	if once := b.Elapsed() / time.Duration(b.N); once < time.Millisecond {
		repeats = int(time.Millisecond/max(once, time.Microsecond)) + 1
	}
	measure := func(f func() error, repeats int) (time.Duration, error) {
		start := time.Now()
		for range repeats {
			if err := f(); err != nil {
				return 0, err
			}
		}
		return time.Since(start) / time.Duration(repeats), nil
	}
	owns := make([]time.Duration, 0, turns)
	others := make([][]time.Duration, len(rivals))
	failed := make([]bool, len(rivals))
	// The first turn is for caches to be filled.
	for turn := range turns + 1 {
		d, err := measure(own, repeats)
		if err != nil {
			b.Fatal(err)
		}
		if turn > 0 {
			owns = append(owns, d)
		}
		for i, r := range rivals {
			if failed[i] {
				continue
			}
			n := 1
			if len(others[i]) > 0 && others[i][0] < time.Millisecond {
				n = repeats
			}
			d, err := measure(r.run, n)
			if err != nil {
				b.Logf("%s is left out: %v", r.name, err)
				failed[i] = true
			} else if turn > 0 {
				others[i] = append(others[i], d)
			}
		}
	}
	for i, r := range rivals {
		if !failed[i] {
			b.ReportMetric(float64(median(others[i]))/float64(median(owns)), "x-vs-"+r.name)
			b.ReportMetric(float64(median(others[i])), r.name+"-ns")
		}
	}
}

func median(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// Finding every process that carries a marker. Ten of them do.
func BenchmarkList(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("processes=%d", size), func(b *testing.B) {
			id := marker.Identity{Kind: marker.KindMCP, Service: "clock", Installation: "bench-" + strconv.Itoa(os.Getpid()), Instance: "one"}
			const marked = 10
			startMarked(b, marked, id)
			crowd(b, size, marker.Identity{})
			entry := marker.Installation + "=" + id.Installation
			expect := func(n int) error {
				if n != marked {
					return fmt.Errorf("%d processes are found, and not %d", n, marked)
				}
				return nil
			}
			compare(b, 5, func() error {
				found, err := List(context.Background(), Filter{Installation: id.Installation})
				return errors.Join(err, expect(len(found)))
			}, rival{"kernel", bareCalls(b)}, rival{"readfile", func() error { return expect(readFiles([]byte(entry + "\x00"))) }},
				rival{"gopsutil", func() error {
					n, err := psList(entry)
					return errors.Join(err, expect(n))
				}},
				rival{"ps", func() error {
					out, err := exec.Command("ps", "axeww").Output()
					if err != nil {
						return err
					}
					n := 0
					for line := range strings.Lines(string(out)) {
						if strings.Contains(line, entry+" ") {
							n++
						}
					}
					return expect(n)
				}})
		})
	}
}

// bareCalls returns a function that makes the system calls without which no
// environments can be read, as many at once as a scan, and nothing else: what
// List takes cannot be less than it does.
func bareCalls(b *testing.B) func() error {
	b.Helper()
	proc, err := listProc()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { unix.Close(proc) })
	pids, err := numbersIn(proc, make([]byte, 32<<10), nil)
	if err != nil {
		b.Fatal(err)
	}
	paths := make([][]byte, len(pids))
	for i, pid := range pids {
		paths[i] = append(appendPath(nil, pid, "environ"), 0)
	}
	read := func(paths [][]byte) {
		buf := make([]byte, 64<<10)
		for _, path := range paths {
			fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(proc), uintptr(unsafe.Pointer(&path[0])), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
			if errno == 0 {
				_, _ = unix.Read(int(fd), buf)
				_ = unix.Close(int(fd))
			}
		}
	}
	list := func() error {
		if _, err := unix.Seek(proc, 0, 0); err != nil {
			return err
		}
		buf := make([]byte, 32<<10)
		for n := 1; n > 0; {
			var err error
			if n, err = unix.ReadDirent(proc, buf); err != nil {
				return err
			}
		}
		return nil
	}
	return func() error {
		var helper sync.WaitGroup
		var err error
		// A listing is about an eighth of the whole.
		half := len(paths) * 9 / 16
		helper.Go(func() { read(paths[:half]) })
		err = list()
		read(paths[half:])
		helper.Wait()
		return err
	}
}

// startMarked starts processes that carry a marker and, unlike a crowd, have
// executed something.
func startMarked(b *testing.B, n int, id marker.Identity) {
	b.Helper()
	for range n {
		startShell(b, "echo ready; read line", withMarker(id))
	}
}

// readFiles counts the processes with a variable, in the plainest way.
func readFiles(needle []byte) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return -1
	}
	n := 0
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		block, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err == nil && bytes.Contains(block, needle) {
			n++
		}
	}
	return n
}

func psList(entry string) (int, error) {
	all, err := psprocess.Processes()
	if err != nil {
		return 0, err
	}
	n := 0
	for _, p := range all {
		if env, err := p.Environ(); err == nil && slices.Contains(env, entry) {
			n++
		}
	}
	return n, nil
}

// Finding who listens on a port: a process that the caller has thought of, one
// that carries a marker, a stranger, or nobody.
func BenchmarkListeners(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("processes=%d", size), func(b *testing.B) {
			crowd(b, size, marker.Identity{})
			id := marker.Identity{Kind: marker.KindMCP, Service: "clock", Installation: "bench-" + strconv.Itoa(os.Getpid()), Instance: "one"}
			startMarked(b, 10, id)
			const anywhere = "tcp4 127.0.0.1:0"
			marked, stranger := start(b, "listen", anywhere, withMarker(id)), start(b, "listen", anywhere)
			for _, holder := range []struct {
				name  string
				h     *helper
				hints []int
			}{
				{"hinted", marked, []int{marked.pid()}},
				{"marked", marked, nil},
				{"stranger", stranger, nil},
			} {
				b.Run("holder="+holder.name, func(b *testing.B) {
					pid, port := holder.h.pid(), holder.h.numbers[0]
					expect := func(got int) error {
						if got != pid {
							return fmt.Errorf("the holder is %d, and not %d", got, pid)
						}
						return nil
					}
					compare(b, 5, func() error {
						found, err := Listeners(context.Background(), port, holder.hints...)
						if err != nil || len(found) != 1 {
							return fmt.Errorf("%+v, %w", found, err)
						}
						return expect(found[0].PID)
					}, rival{"gopsutil", func() error {
						all, err := psnet.Connections("tcp")
						if err != nil {
							return err
						}
						for _, c := range all {
							if c.Status == "LISTEN" && int(c.Laddr.Port) == port {
								return expect(int(c.Pid))
							}
						}
						return expect(0)
					}}, rival{"lsof", func() error {
						out, err := exec.Command("lsof", "-nP", "-t", "-iTCP:"+strconv.Itoa(port), "-sTCP:LISTEN").Output()
						if err != nil {
							return err
						}
						got, _ := strconv.Atoi(strings.TrimSpace(string(out)))
						return expect(got)
					}}, rival{"ss", func() error {
						out, err := exec.Command("ss", "-Hltnp", "sport = :"+strconv.Itoa(port)).Output()
						if err == nil && !strings.Contains(string(out), fmt.Sprintf("pid=%d,", pid)) {
							err = fmt.Errorf("it says %q", out)
						}
						return err
					}})
				})
			}
		})
	}
	b.Run("holder=none", func(b *testing.B) {
		compare(b, 0, func() error {
			_, err := Listeners(context.Background(), 1)
			return err
		})
	})
}

// What a single process is, beside the bare reading of its environment: its
// marker, and the full proof (the hold, the birth record, and the marker).
func BenchmarkIdentify(b *testing.B) {
	id := marker.Identity{Kind: marker.KindMCP, Service: "clock", Installation: "bench-" + strconv.Itoa(os.Getpid()), Instance: "one"}
	h := startShell(b, "echo ready; read line", withMarker(id))
	p, err := Open(h.pid())
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	birth, err := p.Birth()
	if err != nil {
		b.Fatal(err)
	}
	path, buf := procPath(h.pid(), "environ"), make([]byte, 32<<10)
	bare := rival{"bare", func() error {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		_, err = unix.Read(fd, buf)
		return errors.Join(err, unix.Close(fd))
	}}
	readMarker := func(p *Process) error {
		got, err := p.Marker()
		if err == nil && got != id {
			err = fmt.Errorf("the marker says %v", got)
		}
		return err
	}
	prove := func(e Expect) error {
		p, err := Open(h.pid())
		if err != nil {
			return err
		}
		defer p.Close()
		if proof := p.Identify(e); proof.Verdict != Ours || proof.Birth != birth || proof.Identity != id {
			return fmt.Errorf("%v (%s)", proof.Verdict, proof.Reason)
		}
		return nil
	}
	for _, bm := range []struct {
		name string
		run  func() error
	}{
		{"marker/of one held", func() error { return readMarker(p) }},
		{"marker/opened for it", func() error {
			p, err := Open(h.pid())
			if err != nil {
				return err
			}
			defer p.Close()
			return readMarker(p)
		}},
		{"proof/by marker", func() error { return prove(Expect{Identity: id}) }},
		{"proof/by birth", func() error { return prove(Expect{Identity: id, Birth: birth}) }},
	} {
		b.Run(bm.name, func(b *testing.B) { compare(b, 501, bm.run, bare) })
	}
}
