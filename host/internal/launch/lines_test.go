package launch

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestLineWriter(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	tests := []struct {
		name, input string
		want        []string
	}{
		{"lines", "a\nb\n", []string{"a", "b"}},
		{"a last line without an end", "a\nb", []string{"a", "b"}},
		{"empty lines", "\n\na\n", []string{"", "", "a"}},
		{"the ends of another system", "a\r\nb\r\n", []string{"a", "b"}},
		{"a line of just the bound", long + "\nmarker\n", []string{long, "marker"}},
		{"a line over the bound is cut", long + "yz\nmarker\n", []string{long, "yz", "marker"}},
		{"a line that never ends", long + long + "z", []string{long, long, "z"}},
		{"nothing", "", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			// However it comes in pieces, the lines are the same.
			random := rand.New(rand.NewPCG(1, 2))
			for range 20 {
				var got []string
				w := &lineWriter{output: func(_ Stream, line []byte) { got = append(got, string(line)) }}
				for rest := test.input; rest != ""; {
					n := 1 + random.IntN(len(rest))
					if written, err := w.Write([]byte(rest[:n])); written != n || err != nil {
						t.Fatalf("Write = %d, %v, want %d", written, err, n)
					}
					rest = rest[n:]
				}
				w.flush()
				if !slices.Equal(got, test.want) {
					t.Fatalf("got %d lines, want %d", len(got), len(test.want))
				}
			}
		})
	}
}

func TestLooksLikeHandshake(t *testing.T) {
	tests := map[string]bool{
		"1|1|unix|/tmp/x|grpc|\n":      true,
		"1|1|unix|/tmp/x|grpc|\r\n":    true,
		"1|5|tcp|127.0.0.1:1234\n":     true,
		"Welcome!\n":                   false,
		"1|1\n":                        false,
		"a|b|c|d\n":                    false,
		"| col | col | col | col |\n":  false,
		"\n":                           false,
		"1|x|unix|/tmp/x|grpc|\n":      false,
		`{"a":"1|1|unix|/x|grpc|"}`:    false,
		"2026|11|29|18:00|log line|\n": true, // go-plugin says what is wrong with it
	}
	for line, want := range tests {
		if got := looksLikeHandshake([]byte(line)); got != want {
			t.Errorf("looksLikeHandshake(%q) = %v, want %v", line, got, want)
		}
	}
}
