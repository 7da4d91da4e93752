package main

import "testing"

func TestLinesAreCutToTheScreen(t *testing.T) {
	tests := []struct {
		name, line, want string
		width            int
	}{
		{"fits", "abc", "abc", 3},
		{"is too long", "abcd", "abc", 3},
		{"counts characters", "äöüß", "äöü", 3},
		{"does not count colours, and ends them", "\x1b[32mabcd\x1b[0m", "\x1b[32mabc\x1b[0m", 3},
		{"has no room", "abc", "", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := cut(test.line, test.width); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
