package config

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Severity says how bad a finding is.
type Severity int

// The severities.
const (
	// SeverityError marks a fault: the configuration is refused.
	SeverityError Severity = iota + 1
	// SeverityWarning marks what is accepted but is most likely a mistake.
	SeverityWarning
)

// String returns "error" or "warning".
func (s Severity) String() string {
	if s == SeverityWarning {
		return "warning"
	}
	return "error"
}

// Diagnostic is one finding about a configuration.
type Diagnostic struct {
	Severity Severity

	// Summary says in a few words what is wrong.
	Summary string

	// Detail says in sentences what is wrong exactly, and what to do.
	Detail string

	// Range is the fault itself, as tight as possible. It is zero if the fault
	// has no place in a file that could be read; its Filename may be set all
	// the same.
	Range hcl.Range

	// Within names the block around the fault, such as service "mcp" "clock".
	// It is empty outside of blocks.
	Within string

	// Err is the cause, where the operating system gave one.
	Err error

	safe   bool // Detail may be shown though the value at Range is sensitive
	hidden bool // the text around Range may not be shown
}

// Error returns the finding in one line.
func (d Diagnostic) Error() string {
	var b strings.Builder
	if d.HasPlace() {
		b.WriteString(d.Range.String() + ": ")
	}
	b.WriteString(d.Summary)
	if d.Detail != "" {
		b.WriteString(": " + d.Detail)
	}
	return b.String()
}

// Unwrap returns the cause.
func (d Diagnostic) Unwrap() error { return d.Err }

// HasPlace reports whether Range points into a file.
func (d Diagnostic) HasPlace() bool { return d.Range.Start.Line > 0 }

// Diagnostics is what was found while loading a configuration, in the order of
// files and positions. A nil pointer holds nothing.
type Diagnostics struct {
	list  []Diagnostic
	files map[string]*hcl.File
}

// All returns the findings. Those without a place come first, then file by
// file in the order in which the files were read, by position.
func (d *Diagnostics) All() []Diagnostic {
	if d == nil {
		return nil
	}
	return d.list
}

// Count returns how many errors and warnings there are.
func (d *Diagnostics) Count() (errors, warnings int) {
	for _, x := range d.All() {
		if x.Severity == SeverityWarning {
			warnings++
		} else {
			errors++
		}
	}
	return errors, warnings
}

// HasErrors reports whether the configuration is refused.
func (d *Diagnostics) HasErrors() bool {
	errors, _ := d.Count()
	return errors > 0
}

// Files returns the files that were read, by the names that ranges carry, with
// their bytes as they are on disk.
func (d *Diagnostics) Files() map[string]*hcl.File {
	if d == nil {
		return nil
	}
	return d.files
}

// Err returns an [*Error] if there are errors, and nil otherwise.
func (d *Diagnostics) Err() error {
	if !d.HasErrors() {
		return nil
	}
	return &Error{Diagnostics: d}
}

// Error is a refused configuration as a Go error. The causes that the operating
// system gave can be found in it with errors.Is and errors.As.
type Error struct {
	Diagnostics *Diagnostics
}

// Error returns all errors, one a line.
func (e *Error) Error() string {
	var lines []string
	for _, d := range e.Diagnostics.All() {
		if d.Severity == SeverityError {
			lines = append(lines, d.Error())
		}
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the errors, each a [Diagnostic].
func (e *Error) Unwrap() []error {
	var errs []error
	for _, d := range e.Diagnostics.All() {
		if d.Severity == SeverityError {
			errs = append(errs, d)
		}
	}
	return errs
}

// collector gathers findings while a configuration is read.
type collector struct {
	secrecy
	list []Diagnostic
}

func (c *collector) errorf(rng hcl.Range, summary, format string, args ...any) {
	c.list = append(c.list, Diagnostic{
		Severity: SeverityError, Summary: summary, Detail: fmt.Sprintf(format, args...), Range: rng,
	})
}

func (c *collector) warnf(rng hcl.Range, summary, format string, args ...any) {
	c.list = append(c.list, Diagnostic{
		Severity: SeverityWarning, Summary: summary, Detail: fmt.Sprintf(format, args...), Range: rng,
	})
}

// osError adds a fault that the operating system reported about a path.
func (c *collector) osError(summary string, err error, format string, args ...any) {
	c.list = append(c.list, Diagnostic{
		Severity: SeverityError, Summary: summary, Detail: fmt.Sprintf(format, args...), Err: err,
	})
}

// native adds what the hcl library found.
func (c *collector) native(diags hcl.Diagnostics) {
	for _, d := range diags {
		x := Diagnostic{Severity: SeverityError, Summary: d.Summary, Detail: d.Detail}
		if d.Severity == hcl.DiagWarning {
			x.Severity = SeverityWarning
		}
		if d.Subject != nil {
			x.Range = *d.Subject
		}
		c.list = append(c.list, x)
	}
}

// finish takes from the findings what must not be shown, sorts them, drops
// repeated ones and names the blocks around them. Order is that of the files in names, then of positions.
func (c *collector) finish(names []string, files map[string]*hcl.File) *Diagnostics {
	rank := make(map[string]int, len(names))
	for i, name := range names {
		rank[name] = i + 1
	}
	list := slices.Clone(c.list)
	replacer := c.replacer()
	for i := range list {
		c.redact(&list[i], replacer)
	}
	slices.SortStableFunc(list, func(a, b Diagnostic) int {
		return cmp.Or(
			cmp.Compare(rank[a.Range.Filename], rank[b.Range.Filename]),
			cmp.Compare(a.Range.Start.Byte, b.Range.Start.Byte),
			cmp.Compare(a.Range.End.Byte, b.Range.End.Byte),
			cmp.Compare(a.Severity, b.Severity),
			cmp.Compare(a.Summary, b.Summary),
			cmp.Compare(a.Detail, b.Detail),
		)
	})
	list = slices.CompactFunc(list, func(a, b Diagnostic) bool {
		return a.Range == b.Range && a.Severity == b.Severity && a.Summary == b.Summary && a.Detail == b.Detail
	})
	for i := range list {
		list[i].Within = within(files[list[i].Range.Filename], list[i])
	}
	return &Diagnostics{list: list, files: files}
}

// within names the block around a finding.
func within(file *hcl.File, d Diagnostic) string {
	if file == nil || !d.HasPlace() {
		return ""
	}
	offset := d.Range.Start.Byte
	if body, ok := file.Body.(*hclsyntax.Body); ok {
		// The last block that begins before the finding.
		n := sort.Search(len(body.Blocks), func(i int) bool { return body.Blocks[i].TypeRange.Start.Byte > offset })
		if n == 0 || body.Blocks[n-1].Range().End.Byte <= offset {
			return ""
		}
		words := []string{body.Blocks[n-1].Type}
		for _, label := range body.Blocks[n-1].Labels {
			words = append(words, `"`+label+`"`)
		}
		return strings.Join(words, " ")
	}
	if nav, ok := file.Nav.(interface{ ContextString(offset int) string }); ok {
		return nav.ContextString(offset)
	}
	return ""
}

// quote puts a word of the configuration in quotes for a message; what cannot
// be printed is escaped, and what is too long is cut.
func quote(s string) string {
	const most = 400 // bytes
	if len(s) <= most {
		return fmt.Sprintf("%q", s)
	}
	end := most
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return fmt.Sprintf("%q...", s[:end])
}
