//go:build unix

package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLostLogLinesAreNoFailureOfAStop has a log that cannot be written any more,
// as on a full disk.
func TestLostLogLinesAreNoFailureOfAStop(t *testing.T) {
	h := startFaults(t, hostOptions{}, fault("f", ""))
	h.waitReady()
	log := filepath.Join(h.stateDir, "logs", "mcp.f.jsonl")
	check(t, os.Remove(log))
	check(t, os.Mkdir(log, 0o700))
	h.stop()
	eventually(t, "the host tells of it", func() bool {
		return strings.Contains(h.output.String(), "lines of the services' logs were lost")
	})
}
