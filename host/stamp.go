package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/plughost/plughost/probes"
	"github.com/plughost/plughost/shared/marker"
)

// stampOutcome says whether this process carries the host's marker.
type stampOutcome int

const (
	stampDone       stampOutcome = iota // it does, and others can read it
	stampUnverified                     // it does not: go on without
)

// stamp makes this process carry the host's marker where others can read it,
// in the environment that the kernel shows. That is fixed by the exec, so the
// process replaces its own image once, under the same pid; if that succeeds
// stamp does not return. The installation's lock is let go by the exec and
// taken again after it.
//
// The marker of another host, of which this one was started as a child, is
// dropped: this host's processes are its own.
func stamp(installation string) (stampOutcome, error) {
	want := marker.Identity{Kind: marker.KindHost, Installation: installation}
	got, err := probes.SelfMarker()
	switch {
	case err == nil && got == want:
		return stampDone, nil
	case errors.Is(err, errors.ErrUnsupported):
		return stampUnverified, err
	case os.Getenv(marker.Host) == installation:
		// It was stamped and cannot be read back: do not try for ever.
		return stampUnverified, fmt.Errorf("the marker cannot be read back: %w", err)
	}
	executable, err := os.Executable()
	if err != nil {
		return stampUnverified, err
	}
	return stampUnverified, replaceImage(executable, os.Args, stampedEnviron(os.Environ(), want))
}

func stampedEnviron(environ []string, host marker.Identity) []string {
	var env []string
	for _, entry := range environ {
		if name, _, _ := strings.Cut(entry, "="); !marker.IsMarker(name) {
			env = append(env, entry)
		}
	}
	return append(env, host.Environ()...)
}
