//go:build linux

// Package bench measures the built host beside the bare cost of what it does
// and beside a supervisor of services that only listen: all in turns in one
// run, so that what else the machine does hits all alike. Only the ratios mean
// something on another machine.
package bench

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// patience bounds waits for what must happen.
const patience = 60 * time.Second

// binaries is the directory of the built binaries; see needBinaries.
var binaries string

func TestMain(m *testing.M) {
	if address := os.Getenv(envListener); address != "" {
		if err := listenForEver(address); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if binaries != "" {
		_ = os.RemoveAll(binaries)
	}
	os.Exit(code)
}

// programs are what can be measured, and their packages.
var programs = map[string]string{
	"plughost":    "../../host",
	"mcp-example": "../../plugins/mcp-example",
	"mcp-bridge":  "../../plugins/mcp-bridge",
	"faultplugin": "../faultplugin",
}

// needBinaries builds what is measured, each program once: those that are
// named, or all.
func needBinaries(tb testing.TB, names ...string) {
	tb.Helper()
	if binaries == "" {
		dir, err := os.MkdirTemp("", "plughost-bench-bin-")
		if err != nil {
			tb.Fatal(err)
		}
		binaries = dir
	}
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(programs))
	}
	for _, name := range names {
		path := filepath.Join(binaries, name)
		if _, err := os.Stat(path); err == nil {
			continue
		}
		output, err := exec.Command("go", "build", "-o", path, programs[name]).CombinedOutput()
		if err != nil {
			tb.Fatalf("cannot build %s: %v\n%s", programs[name], err, output)
		}
	}
}

// contestant is one of those who do the same work in turns.
type contestant struct {
	name string
	run  func(b *testing.B) time.Duration // of what counts
}

// inTurns lets all do their work in turns, and returns the median of each by
// name, which it reports too.
func inTurns(b *testing.B, turns int, all ...contestant) map[string]time.Duration {
	b.Helper()
	took := make(map[string][]time.Duration)
	for b.Loop() {
		alternate(turns, len(all), func(i int, counts bool) {
			d := all[i].run(b)
			if counts {
				took[all[i].name] = append(took[all[i].name], d)
			}
		})
	}
	medians := make(map[string]time.Duration)
	for name, ds := range took {
		medians[name] = median(ds)
		b.ReportMetric(float64(medians[name].Microseconds())/1000, name+"-ms")
	}
	b.ReportMetric(0, "ns/op") // the sum of all turns says nothing
	return medians
}

// alternate has n who do the same work take their turns. The first one does not
// count: it is for caches to be filled.
func alternate(turns, n int, turn func(i int, counts bool)) {
	for round := range turns + 1 {
		for i := range n {
			turn(i, round > 0)
		}
	}
}

func median[T cmp.Ordered](all []T) T {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// ratio reports how many times longer one took than another.
func ratio(b *testing.B, name string, of, to time.Duration) {
	b.Helper()
	if to > 0 {
		b.ReportMetric(float64(of)/float64(to), name)
	}
}
