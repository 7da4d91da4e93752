package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// gate is a file that takes nothing before it is open, and says that it was
// written to.
type gate struct {
	reached chan struct{}
	open    chan struct{}
	taken   bytes.Buffer
}

func (g *gate) Write(p []byte) (int, error) {
	select {
	case g.reached <- struct{}{}:
	default:
	}
	<-g.open
	return g.taken.Write(p)
}

func TestASinkWaitsForNobodyAndSaysWhatWasLeftOut(t *testing.T) {
	g := &gate{reached: make(chan struct{}, 1), open: make(chan struct{})}
	s := newSink(g)
	const all = 3 * maxUnread / 1000
	for i := range all {
		fmt.Fprintf(s, "%d %s\n", i, strings.Repeat(".", 1000))
		if i == 0 {
			<-g.reached // from here on nothing is taken from what waits
		}
	}
	close(g.open)
	s.close()
	<-s.written
	lines := strings.Split(strings.TrimSuffix(g.taken.String(), "\n"), "\n")
	whole, said := lines[:len(lines)-1], lines[len(lines)-1]
	for i, line := range whole {
		if !strings.HasPrefix(line, fmt.Sprintf("%d .", i)) {
			t.Fatalf("line %d is %.20q", i, line)
		}
	}
	if want := fmt.Sprintf("plughost: %d lines left out here", all-len(whole)); !strings.HasPrefix(said, want) || len(whole) == 0 || len(whole) == all {
		t.Errorf("after %d of %d lines it says %q", len(whole), all, said)
	}
}
