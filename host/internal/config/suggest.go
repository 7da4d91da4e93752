package config

import (
	"slices"
	"strings"
)

// suggest returns the candidate that given was most likely meant to be, or an
// empty string if none is near. Of equally near ones the first wins.
func suggest(given string, candidates []string) string {
	best, bestDistance := "", 0
	given = strings.ToLower(given)
	for _, c := range candidates {
		// A third of the letters may be wrong, but in a short word always one
		// and in a long one never more than three.
		limit := min(max(len(c)/3, 1), 3)
		if diff := len(given) - len(c); diff > limit || -diff > limit {
			continue
		}
		d := editDistance([]rune(given), []rune(strings.ToLower(c)))
		if d <= limit && (best == "" || d < bestDistance) {
			best, bestDistance = c, d
		}
	}
	if best == "" && len(given) >= 3 {
		// A longer or shorter form of the same word, such as warning for warn.
		for _, c := range candidates {
			if strings.HasPrefix(c, given) || len(c) >= 3 && strings.HasPrefix(given, c) {
				return c
			}
		}
	}
	return best
}

// editDistance counts the insertions, deletions, substitutions and swaps of
// neighbours that turn a into b.
func editDistance(a, b []rune) int {
	before := make([]int, len(b)+1)
	last := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// didYouMean returns a hint as a sentence with a space before it, or nothing.
func didYouMean(given string, candidates []string) string {
	if s := suggest(given, candidates); s != "" {
		return " Did you mean " + quote(s) + "?"
	}
	return ""
}

// otherWords are names that other tools use for arguments of a service, with
// what to write here instead.
var otherWords = map[string]string{
	"after":             `"depends_on"`,
	"args":              `more elements of "command"`,
	"arguments":         `more elements of "command"`,
	"cmd":               `"command"`,
	"cwd":               `"dir"`,
	"dependencies":      `"depends_on"`,
	"directory":         `"dir"`,
	"environment":       `"env"`,
	"pass_env":          `"inherit"`,
	"program":           `"command"`,
	"requires":          `"depends_on"`,
	"workdir":           `"dir"`,
	"working_dir":       `"dir"`,
	"working_directory": `"dir"`,
}

// listed joins words for a sentence: a, b or c.
func listed(words []string, last string) string {
	words = slices.Clone(words)
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	n := len(words) - 1
	return strings.Join(words[:n], ", ") + " " + last + " " + words[n]
}

// Nearest returns the candidate that given was most likely meant to be, or an
// empty string if none is near.
func Nearest(given string, candidates []string) string { return suggest(given, candidates) }
