//go:build !linux && !windows && !darwin && !freebsd

package probes

import (
	"errors"
	"os"
	"testing"

	"github.com/plughost/plughost/shared/marker"
)

func TestUnsupported(t *testing.T) {
	t.Parallel()
	parent := os.Getppid()
	for pid, want := range map[int]error{
		0: ErrInvalidPID, -1: ErrInvalidPID, os.Getpid(): ErrSelf, parent: errors.ErrUnsupported,
	} {
		if _, err := Open(pid); !errors.Is(err, want) {
			t.Errorf("Open(%d) says %v, want %v", pid, err, want)
		}
	}
	id := marker.Identity{Kind: marker.KindMCP, Service: "a", Installation: "b", Instance: "c"}
	got, err := Stop(t.Context(), Record{PID: parent, Identity: id, Group: true}, 0)
	if err != nil || got.Outcome != OutcomeUnknown || got.Proof.Verdict != Unknown || got.Proof.Reason == "" {
		t.Errorf("Stop = %+v, %v", got, err)
	}
	if _, err := Sweep(t.Context(), Filter{Instance: "c"}, 0); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Sweep says %v", err)
	}
	if _, err := List(t.Context(), Filter{Instance: "c"}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("List says %v", err)
	}
	if _, err := Listeners(t.Context(), 1); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Listeners says %v", err)
	}
	if c := Coverage(); c.Supported || len(c.Notes) == 0 {
		t.Errorf("Coverage = %+v", c)
	}
}
