//go:build linux

package bench

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// many is how many services there are where there are many.
const many = 50

// From the spawn of the first plugin to the moment when all are ready: under
// the host, bare, and beside it runit with services that only listen. "boot" is
// the host's from its own exec.
func BenchmarkStart(b *testing.B) {
	needBinaries(b)
	for _, n := range []int{1, many} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			var boots []time.Duration
			contestants := []contestant{
				{"bare", func(b *testing.B) time.Duration { return bareStart(b, n) }},
				{"host", func(b *testing.B) time.Duration {
					h := startHost(b, examples(n))
					first := h.waitState("", "starting")
					ready := h.waitReady()
					boots = append(boots, ready.at.Sub(h.started))
					h.stop()
					return ready.at.Sub(first.at)
				}},
			}
			if _, err := exec.LookPath("runsvdir"); err != nil {
				b.Logf("runit is left out, which is not installed (on Debian: apt-get install runit): %v", err)
			} else {
				l := newListeners(b)
				contestants = append(contestants,
					contestant{"bare-listener", func(b *testing.B) time.Duration { return bareListeners(b, l, n) }},
					contestant{"runit", func(b *testing.B) time.Duration { return runitStart(b, l, n) }})
			}
			medians := inTurns(b, 5, contestants...)
			ratio(b, "host-x-bare", medians["host"], medians["bare"])
			ratio(b, "boot-x-bare", median(boots), medians["bare"])
			ratio(b, "runit-x-bare-listener", medians["runit"], medians["bare-listener"])
		})
	}
}

// From kill -9 of a plugin to its replacement being ready, against a bare
// start and the delay that is configured.
func BenchmarkRecovery(b *testing.B) {
	needBinaries(b)
	for _, delay := range []time.Duration{time.Millisecond, 500 * time.Millisecond} {
		b.Run(fmt.Sprintf("delay=%v", delay), func(b *testing.B) {
			h := startHost(b, service("s", "mcp-example", fmt.Sprintf("  restart {\n    delay  = %q\n    factor = 1\n    jitter = 0\n    limit  = 0\n  }\n", delay)))
			pid := h.waitState("s", "ready").pid
			h.waitReady()
			medians := inTurns(b, 9,
				contestant{"bare", func(b *testing.B) time.Duration { return bareStart(b, 1) }},
				contestant{"host", func(b *testing.B) time.Duration {
					start := time.Now()
					if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
						b.Fatal(err)
					}
					ready := h.waitState("s", "ready")
					pid = ready.pid
					return ready.at.Sub(start)
				}},
			)
			ratio(b, "host-x-bare-and-delay", medians["host"], medians["bare"]+delay)
			h.stop()
		})
	}
}

// The stop of the whole host with many services, against the slowest stop of a
// single one. "stubborn" has one that does not end before it is killed.
func BenchmarkStop(b *testing.B) {
	needBinaries(b)
	stubborn := service("slowest", "faultplugin", "  env = {\n    FAULT_STUBBORN = \"1\"\n  }\n  stop {\n    grace = \"1s\"\n  }\n")
	for _, bm := range []struct{ name, last string }{
		{"plain", service("slowest", "mcp-example", "")},
		{"stubborn", stubborn},
	} {
		b.Run(bm.name, func(b *testing.B) {
			var within []time.Duration
			medians := inTurns(b, 3,
				contestant{"single", func(b *testing.B) time.Duration {
					h := startHost(b, bm.last)
					h.waitReady()
					h.cli("stop", "slowest")
					stopping := h.waitState("slowest", "stopping")
					took := h.waitState("slowest", "stopped").at.Sub(stopping.at)
					h.stop()
					return took
				}},
				contestant{"all", func(b *testing.B) time.Duration {
					h := startHost(b, examples(many-1)+bm.last)
					h.waitReady()
					took, each := h.stop()
					within = append(within, slices.Max(slices.Collect(maps.Values(each))))
					return took
				}},
			)
			ratio(b, "all-x-single", medians["all"], medians["single"])
			ratio(b, "all-x-slowest-of-them", medians["all"], median(within))
		})
	}
}

// What a host with many services that nobody calls takes of memory and of a
// core.
func BenchmarkIdle(b *testing.B) {
	needBinaries(b)
	b.Run("services="+strconv.Itoa(many), func(b *testing.B) {
		h := startHost(b, examples(many))
		h.waitReady()
		const span = 20 * time.Second // two rounds of health checks
		for b.Loop() {
			before, start := cpu(b, h.cmd.Process.Pid), time.Now()
			<-time.After(span)
			used := cpu(b, h.cmd.Process.Pid) - before
			b.ReportMetric(100*float64(used)/float64(time.Since(start)), "%-of-a-core")
		}
		b.ReportMetric(float64(rss(b, h.cmd.Process.Pid))/(1<<20), "rss-MiB")
		b.ReportMetric(0, "ns/op")
		h.stop()
	})
}
