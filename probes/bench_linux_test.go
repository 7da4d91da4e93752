package probes

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"

	"github.com/plughost/plughost/shared/marker"
)

// crowd starts processes for the others to be found among. They end with the
// benchmark, or with the test binary.
func crowd(b *testing.B, size int) {
	b.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	var all []*exec.Cmd
	b.Cleanup(func() {
		_ = w.Close()
		for _, cmd := range all {
			_ = cmd.Wait()
		}
	})
	for range size {
		cmd := exec.Command("/bin/cat")
		cmd.Stdin = r
		cmd.Env = marker.Scrub(os.Environ())
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		all = append(all, cmd)
	}
	_ = r.Close()
}

func BenchmarkList(b *testing.B) {
	for _, size := range []int{0, 100, 1000} {
		b.Run(fmt.Sprintf("processes=%d", size), func(b *testing.B) {
			crowd(b, size)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := List(context.Background(), Filter{Installation: "none of them"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkListeners(b *testing.B) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	bench := func(b *testing.B, port int, hints ...int) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Listeners(context.Background(), port, hints...); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("free port", func(b *testing.B) { bench(b, 1) })
	b.Run("hinted", func(b *testing.B) { bench(b, port, os.Getpid()) })
	for _, size := range []int{0, 100, 1000} {
		b.Run(fmt.Sprintf("processes=%d", size), func(b *testing.B) {
			crowd(b, size)
			bench(b, port)
		})
	}
}

func BenchmarkIdentify(b *testing.B) {
	p, err := hold(os.Getpid())
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	birth, err := p.Birth()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if proof := p.Identify(Expect{Birth: birth}); proof.Verdict != Ours {
			b.Fatal(proof.Reason)
		}
	}
}
