package config

import (
	"bytes"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
)

// Report is what was found about a configuration, for programs. Its JSON form is
// that of Terraform's validate -json, so what reads the one reads the other.
type Report struct {
	FormatVersion string    `json:"format_version"`
	Valid         bool      `json:"valid"`
	ErrorCount    int       `json:"error_count"`
	WarningCount  int       `json:"warning_count"`
	Diagnostics   []Finding `json:"diagnostics"`
}

// Finding is one finding in a report.
type Finding struct {
	Severity string       `json:"severity"`
	Summary  string       `json:"summary"`
	Detail   string       `json:"detail"`
	Range    *SourceRange `json:"range,omitempty"`
	Snippet  *Snippet     `json:"snippet,omitempty"`
}

// SourceRange is a piece of a file; End is the position after it.
type SourceRange struct {
	Filename string    `json:"filename"`
	Start    SourcePos `json:"start"`
	End      SourcePos `json:"end"`
}

// SourcePos is a position. Lines and columns, which are of characters as people
// see them, are counted from 1, and bytes from 0.
type SourcePos struct {
	Line   int `json:"line"`
	Column int `json:"column"`
	Byte   int `json:"byte"`
}

// Snippet is the line of a fault. It is left out where the line holds sensitive
// values.
type Snippet struct {
	// Context is the block around it, or nil.
	Context   *string `json:"context"`
	Code      string  `json:"code"`
	StartLine int     `json:"start_line"`
	// HighlightStartOffset and HighlightEndOffset are of the fault, in bytes of
	// Code.
	HighlightStartOffset int `json:"highlight_start_offset"`
	HighlightEndOffset   int `json:"highlight_end_offset"`
	// Values is always empty: values of variables are not told.
	Values []struct{} `json:"values"`
}

// Report returns the findings for programs.
func (d *Diagnostics) Report() Report {
	errors, warnings := d.Count()
	report := Report{
		FormatVersion: "1.0", Valid: errors == 0, ErrorCount: errors, WarningCount: warnings,
		Diagnostics: make([]Finding, 0, errors+warnings),
	}
	for _, x := range d.All() {
		report.Diagnostics = append(report.Diagnostics, x.finding(d.Files()[x.Range.Filename]))
	}
	return report
}

func (d Diagnostic) finding(file *hcl.File) Finding {
	f := Finding{Severity: d.Severity.String(), Summary: d.Summary, Detail: d.Detail}
	if !d.HasPlace() {
		return f
	}
	f.Range = &SourceRange{Filename: d.Range.Filename, Start: SourcePos(d.Range.Start), End: SourcePos(d.Range.End)}
	if file != nil && !d.hidden {
		f.Snippet = d.snippet(file.Bytes)
	}
	return f
}

// maxSnippet bounds the line that is shown, in bytes on each side of the fault
// and of the fault itself.
const maxSnippet = 500

func (d Diagnostic) snippet(src []byte) *Snippet {
	before, fault, after := faultyLine(d.Range, src)
	before, fault, after = lastBytes(before, maxSnippet), firstBytes(fault, maxSnippet), firstBytes(after, maxSnippet)
	s := &Snippet{
		Code:                 string(bytes.ToValidUTF8(bytes.Join([][]byte{before, fault, after}, nil), []byte(string(utf8.RuneError)))),
		StartLine:            d.Range.Start.Line,
		HighlightStartOffset: len(before),
		HighlightEndOffset:   len(before) + len(fault),
		Values:               []struct{}{},
	}
	if d.Within != "" {
		s.Context = &d.Within
	}
	return s
}

// faultyLine returns the line in which a fault begins. One over several lines is
// taken to the end of the first.
func faultyLine(rng hcl.Range, src []byte) (before, fault, after []byte) {
	start := min(rng.Start.Byte, len(src))
	lineStart := bytes.LastIndexByte(src[:start], '\n') + 1
	lineEnd := len(src)
	if n := bytes.IndexByte(src[start:], '\n'); n >= 0 {
		lineEnd = start + n
	}
	if lineEnd > lineStart && src[lineEnd-1] == '\r' {
		lineEnd--
	}
	start = min(start, lineEnd)
	end := max(min(rng.End.Byte, lineEnd), start)
	return bytes.TrimPrefix(src[lineStart:start], byteOrderMark), src[start:end], src[end:lineEnd]
}
