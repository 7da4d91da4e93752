//go:build linux

package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Validating a configuration whose services refer to each other, to locals and
// to a variable. "us/service" is what to compare: it should not grow.
func BenchmarkValidate(b *testing.B) {
	needBinaries(b)
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			dir := b.TempDir()
			writeReferences(b, dir, n)
			var walls, cpus []time.Duration
			var peak int64
			for b.Loop() {
				cmd := exec.Command(filepath.Join(binaries, "plughost"), "validate", "--config", dir, "--var", "zone=UTC")
				start := time.Now()
				if output, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v\n%s", err, output)
				}
				walls = append(walls, time.Since(start))
				cpus = append(cpus, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
				peak = max(peak, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss<<10)
			}
			b.ReportMetric(float64(median(walls).Milliseconds()), "ms")
			b.ReportMetric(float64(median(cpus).Milliseconds()), "cpu-ms")
			b.ReportMetric(float64(median(cpus).Microseconds())/float64(n), "us/service")
			b.ReportMetric(float64(peak)/1e6, "MB")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// perFile is how many services a file holds, which has a limit.
const perFile = 1000

func writeReferences(b *testing.B, dir string, n int) {
	b.Helper()
	write := func(name, text string) {
		b.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	write("common.hcl", `
variable "zone" {
  type = string
}
locals {
  base   = 10000
  common = { TZ = var.zone, LOG = "info" }
}
service "mcp" "s0" {
  command = ["/bin/sh"]
  port    = local.base
}
`)
	for first := 1; first < n; first += perFile {
		var text strings.Builder
		for i := first; i < min(first+perFile, n); i++ {
			fmt.Fprintf(&text, `
service "mcp" "s%[1]d" {
  command    = ["/bin/sh", "--peer", "127.0.0.1:${service.mcp.s%[2]d.port}"]
  port       = service.mcp.s%[2]d.port + 1
  env        = merge(local.common, { NAME = upper("s%[1]d"), PEER = "${service.mcp.s%[2]d.stop.grace}" })
  depends_on = [service.mcp.s%[2]d]
}
`, i, i-1)
		}
		write(fmt.Sprintf("services-%d.hcl", first), text.String())
	}
}
