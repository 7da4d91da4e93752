package config

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
)

func printed(t *testing.T, d *Diagnostics, color bool, width int) string {
	t.Helper()
	var out bytes.Buffer
	if err := WriteDiagnostics(&out, d, color, width); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestNothingIsPrintedWithoutFindings(t *testing.T) {
	if got := printed(t, nil, true, 80) + printed(t, &Diagnostics{}, false, 0); got != "" {
		t.Errorf("printed %q", got)
	}
}

func TestCountsAtTheEnd(t *testing.T) {
	for want, severities := range map[string][]Severity{
		"1 error\n":               {SeverityError},
		"2 errors\n":              {SeverityError, SeverityError},
		"1 warning\n":             {SeverityWarning},
		"2 errors, 1 warning\n":   {SeverityError, SeverityWarning, SeverityError},
		"1 error, 2 warnings\n":   {SeverityWarning, SeverityWarning, SeverityError},
		"1 error, 1 warning\n":    {SeverityWarning, SeverityError},
		"\n\nwell\n\n1 warning\n": {SeverityWarning},
	} {
		d := &Diagnostics{}
		for _, s := range severities {
			d.list = append(d.list, Diagnostic{Severity: s, Summary: "so", Detail: "well"})
		}
		if got := printed(t, d, false, 0); !strings.HasSuffix(got, want) {
			t.Errorf("printed %q, want %q at its end", got, want)
		}
	}
}

// snippetOf prints the finding about a range of bytes, and returns the source
// line and the caret line.
func snippetOf(t *testing.T, src string, start, end, width int) (line, carets string) {
	t.Helper()
	rng := rangeAt([]byte(src), "x.hcl", start, end)
	d := &Diagnostics{
		list:  []Diagnostic{{Severity: SeverityError, Summary: "s", Range: rng}},
		files: map[string]*hcl.File{"x.hcl": {Bytes: []byte(src), Body: hcl.EmptyBody()}},
	}
	lines := strings.Split(printed(t, d, false, width), "\n")
	return lines[3], lines[4]
}

func TestCaretsStandUnderTheFault(t *testing.T) {
	for _, tt := range []struct {
		name, before, fault, after string
		line, carets               string
	}{
		{"letters", "a = ", "xyz", " # c", "a = xyz # c", "    ^^^"},
		{"tab", "\ta = ", "x", "", "    a = x", "        ^"},
		{"accents of both forms", "é e\u0301 ", "x", "", "é e\u0301 x", "    ^"},
		{"wide characters", "時計 ", "時", "計", "時計 時計", "     ^^"},
		{"emoji of several parts", "👩‍👧 👍🏽 ", "x", "", "👩‍👧 👍🏽 x", "      ^"},
		{"escape", "\x1b[31m", "x", "", `\x1b[31mx`, "        ^"},
		{"bytes that are no text", "\xff", "x", "\xfe", `\xffx\xfe`, "    ^"},
		{"direction of text", "\u202e", "x", "\u2066", `\u202ex\u2066`, "      ^"},
		{"eight-bit control", "\u009b", "x", "", `\u009bx`, "      ^"},
		{"escape in the fault", "a", "\x1b", "b", `a\x1bb`, " ^^^^"},
		{"nothing", "ab", "", "cd", "abcd", "  ^"},
		{"end of the line", "ab", "", "\ncd", "ab", "  ^"},
		{"several lines", "ab", "cd\nef", "g", "abcd", "  ^^"},
		{"carriage return", "ab", "cd", "\r\nef", "abcd", "  ^^"},
		{"end of the file", "ab\n", "", "", "", "^"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			line, carets := snippetOf(t, tt.before+tt.fault+tt.after, len(tt.before), len(tt.before)+len(tt.fault), 0)
			const margin = "     1: "
			if got := strings.TrimPrefix(strings.TrimPrefix(line, margin), "     2: "); got != tt.line {
				t.Errorf("the line is %q, want %q", got, tt.line)
			}
			if got := carets[len(margin):]; got != tt.carets {
				t.Errorf("the caret line is %q, want %q", got, tt.carets)
			}
		})
	}
}

func TestLongLinesAreShortenedAroundTheFault(t *testing.T) {
	for _, at := range []int{0, 10, 40, 500, 950, 999} {
		for _, size := range []int{0, 1, 30, 400} {
			src := strings.Repeat("a", at) + strings.Repeat("X", size) + strings.Repeat("b", 1000)
			for _, width := range []int{0, 1, 40, 80, 120} {
				line, carets := snippetOf(t, src, at, at+size, width)
				limit := map[int]int{0: 208, 1: 28}[width]
				if limit == 0 {
					limit = width
				}
				if len(line) > limit || len(carets) > limit+1 {
					t.Errorf("at %d+%d, width %d: lines of %d and %d", at, size, width, len(line), len(carets))
				}
				if size > 0 && line[strings.IndexByte(carets, '^')] != 'X' {
					t.Errorf("at %d+%d, width %d: the caret is not at the fault:\n%s\n%s", at, size, width, line, carets)
				}
			}
		}
	}
}

func TestDetailsAreBrokenBetweenWords(t *testing.T) {
	d := &Diagnostics{list: []Diagnostic{{
		Severity: SeverityError, Summary: "s",
		Detail: "one two three four\n  five six seven \"a  b\" averyverylongword",
	}}}
	want := "Error: s\n\none two three\nfour\n  five six\n  seven \"a  b\"\n  averyverylongword\n\n1 error\n"
	if got := printed(t, d, false, 14); got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestColorsMarkSeverityAndFault(t *testing.T) {
	_, diags := loadText(t, "services.hcl", written(`@ port=0| inherit=["A","A"]|}`))
	got := printed(t, diags, true, 80)
	for _, want := range []string{"\x1b[1;31mError:\x1b[0m", "\x1b[1;33mWarning:\x1b[0m", "port=\x1b[1;31m0\x1b[0m", "\x1b[1;31m^\x1b[0m"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if plain := printed(t, diags, false, 80); strings.Contains(plain, "\x1b") {
		t.Errorf("without color: %q", plain)
	}
}

func TestControlCharactersNeverReachTheTerminal(t *testing.T) {
	_, diags := loadText(t, "services.hcl", "\x1b]0;title\x07 = 1\nservice \"m\x1bcp\" \"a\x9b\" {\n env = { \"A\\u001b\" = [], \"A\\u001b\" = [] }\n}\n")
	// 0x9b is a control character both as a byte of its own and as U+009B.
	if got := printed(t, diags, false, 0); !utf8.ValidString(got) || strings.ContainsAny(got, "\x1b\x07\u009b") {
		t.Errorf("printed %q", got)
	}
}

func TestLongWordsAreCutInMessages(t *testing.T) {
	name := strings.Repeat("é", 300)
	_, diags := loadText(t, "services.hcl", "service \"mcp\" \"a\" {\n command=[\""+name+"\"]\n}\n")
	if got := diags.All()[0].Detail; strings.Contains(got, name) || !strings.Contains(got, strings.Repeat("é", 200)+"\"...") {
		t.Errorf("the detail is %q", got)
	}
}

type brokenWriter struct{}

var errBroken = errors.New("broken")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestWriteErrorsAreReturned(t *testing.T) {
	d := &Diagnostics{list: []Diagnostic{{Severity: SeverityError, Summary: "s"}}}
	if err := WriteDiagnostics(brokenWriter{}, d, false, 0); !errors.Is(err, errBroken) {
		t.Errorf("error is %v", err)
	}
}
