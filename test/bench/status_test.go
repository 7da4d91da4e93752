//go:build linux

package bench

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// A look at a host with a hundred services, from the command line: 30 ms is
// what people don't notice. The same command with nothing to ask is what of it
// the program itself takes.
func BenchmarkStatus(b *testing.B) {
	needBinaries(b)
	h := startHost(b, examples(100))
	h.waitReady()
	run := func(args ...string) func(*testing.B) time.Duration {
		return func(b *testing.B) time.Duration {
			start := time.Now()
			if output, err := exec.Command(filepath.Join(binaries, "plughost"), args...).CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, output)
			}
			return time.Since(start)
		}
	}
	medians := inTurns(b, 21,
		contestant{"version", run("version")},
		contestant{"status", run("status", "--state-dir", h.stateDir)},
		contestant{"status-json", run("status", "--json", "--state-dir", h.stateDir)})
	ratio(b, "status-x-version", medians["status"], medians["version"])
	h.stop()
}
