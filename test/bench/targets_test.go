//go:build linux

package bench

import (
	"fmt"
	"os"
	"text/tabwriter"
)

// target is a bound that a figure is to keep, on whatever machine.
type target struct {
	what            string
	got             float64
	atLeast, atMost float64 // one of them
}

func (t target) reached() bool {
	if t.atLeast != 0 {
		return t.got >= t.atLeast
	}
	return t.got <= t.atMost
}

func (t target) bound() string {
	if t.atLeast != 0 {
		return fmt.Sprintf(">= %g", t.atLeast)
	}
	return fmt.Sprintf("<= %g", t.atMost)
}

// targets are those of one benchmark.
type targets []target

// print prints which targets were reached. It is not the benchmark's log, of
// which there are ten lines at most.
func (t targets) print(benchmark string) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, t := range t {
		verdict := "missed"
		if t.reached() {
			verdict = "reached"
		}
		fmt.Fprintf(w, "%s\t%s\t%.2f\t%s\t%s\n", benchmark, t.what, t.got, t.bound(), verdict)
	}
	_ = w.Flush()
}
