package config

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
)

// WriteDiagnostics prints findings for people: what is wrong, the file, the line
// and the block, the source line with a caret under the fault, what to do; and
// at the end how many there are. Nothing is printed if there are none.
//
// Lines are kept to width columns where that is possible; 0 means that they may
// be of any length. With color, ANSI sequences are used. Whatever control
// characters the files contain are shown, not sent.
func WriteDiagnostics(w io.Writer, d *Diagnostics, color bool, width int) error {
	if len(d.All()) == 0 {
		return nil
	}
	r := renderer{color: color, width: width}
	for _, x := range d.All() {
		r.diagnostic(x, d.Files()[x.Range.Filename])
	}
	errors, warnings := d.Count()
	var counts []string
	for _, c := range []struct {
		n    int
		word string
	}{{errors, "error"}, {warnings, "warning"}} {
		switch {
		case c.n == 1:
			counts = append(counts, "1 "+c.word)
		case c.n > 1:
			counts = append(counts, fmt.Sprintf("%d %ss", c.n, c.word))
		}
	}
	r.out.WriteString(strings.Join(counts, ", ") + "\n")
	_, err := w.Write(r.out.Bytes())
	return err
}

// ANSI sequences.
const (
	styleReset   = "\x1b[0m"
	styleBold    = "\x1b[1m"
	styleError   = "\x1b[1;31m"
	styleWarning = "\x1b[1;33m"
)

type renderer struct {
	out   bytes.Buffer
	color bool
	width int
}

func (r *renderer) styled(style, text string) string {
	if !r.color {
		return text
	}
	return style + text + styleReset
}

func (r *renderer) diagnostic(d Diagnostic, file *hcl.File) {
	style, word := styleError, "Error"
	if d.Severity == SeverityWarning {
		style, word = styleWarning, "Warning"
	}
	fmt.Fprintf(&r.out, "%s %s\n\n", r.styled(style, word+":"), r.styled(styleBold, visible(d.Summary)))

	if d.HasPlace() {
		fmt.Fprintf(&r.out, "  on %s line %d", visible(d.Range.Filename), d.Range.Start.Line)
		if d.Within != "" {
			fmt.Fprintf(&r.out, ", in %s", visible(d.Within))
		}
		r.out.WriteString(":\n")
		switch {
		case d.hidden:
			fmt.Fprintf(&r.out, "%6d: %s\n", d.Range.Start.Line, sensitiveValue)
		case file != nil:
			r.snippet(d.Range, file.Bytes, style)
		}
		r.out.WriteByte('\n')
	}
	if d.Detail != "" {
		for _, line := range strings.Split(d.Detail, "\n") {
			r.wrapped(visible(line))
		}
		r.out.WriteByte('\n')
	}
}

// wrapped prints a line of text, broken between words.
func (r *renderer) wrapped(text string) {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	column := 0
	for i, word := range strings.Split(text[len(indent):], " ") {
		size := displayWidth(word)
		switch {
		case i == 0:
			r.out.WriteString(indent)
			column = len(indent)
		case r.width > 0 && column+1+size > r.width:
			r.out.WriteString("\n" + indent)
			column = len(indent)
		default:
			r.out.WriteByte(' ')
			column++
		}
		r.out.WriteString(word)
		column += size
	}
	r.out.WriteByte('\n')
}

// snippet prints the line of a fault, and a caret line under it.
func (r *renderer) snippet(rng hcl.Range, src []byte, style string) {
	beforeText, faultText, afterText := faultyLine(rng, src)
	number := fmt.Sprintf("  %4d: ", rng.Start.Line)
	room := max(r.width-len(number), 20)
	if r.width <= 0 {
		room = 200 // even then nobody wants to see a line of a megabyte
	}
	// A column takes four bytes at most, but for marks that have no width.
	most := 8 * room
	before := cells(lastBytes(beforeText, most))
	fault := cells(firstBytes(faultText, most))
	after := cells(firstBytes(afterText, most))
	before, fault, after = fit(before, fault, after, room)

	r.out.WriteString(number)
	r.out.WriteString(joined(before) + r.styled(style, joined(fault)) + joined(after))
	r.out.WriteByte('\n')
	r.out.WriteString(strings.Repeat(" ", len(number)+total(before)))
	r.out.WriteString(r.styled(style, strings.Repeat("^", max(total(fault), 1))))
	r.out.WriteByte('\n')
}

func firstBytes(text []byte, most int) []byte {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

func lastBytes(text []byte, most int) []byte {
	start := max(len(text)-most, 0)
	for start < len(text) && !utf8.RuneStart(text[start]) {
		start++
	}
	return text[start:]
}

// fit shortens a line to the columns there are, so that the fault stays in
// sight.
func fit(before, fault, after []cell, room int) (b, f, a []cell) {
	ellipsis := cell{text: "...", width: 3}
	if total(before)+total(fault)+total(after) <= room {
		return before, fault, after
	}
	if total(fault) > room/2 {
		fault = append(head(fault, room/2-ellipsis.width), ellipsis)
	}
	rest := room - max(total(fault), 1)
	// What follows gets a third, what comes before the remainder.
	if keep := max(rest/3, rest-total(before)); total(after) > keep {
		after = append(head(after, max(keep-ellipsis.width, 0)), ellipsis)
	}
	if keep := rest - total(after); total(before) > keep {
		before = append([]cell{ellipsis}, tail(before, max(keep-ellipsis.width, 0))...)
	}
	return before, fault, after
}

// cell is a piece of a line that is shown as a unit.
type cell struct {
	text  string
	width int // in columns
}

func total(cells []cell) int {
	n := 0
	for _, c := range cells {
		n += c.width
	}
	return n
}

func joined(cells []cell) string {
	var b strings.Builder
	for _, c := range cells {
		b.WriteString(c.text)
	}
	return b.String()
}

func head(list []cell, room int) []cell {
	for i, c := range list {
		if room -= c.width; room < 0 {
			return list[:i:i]
		}
	}
	return list[:len(list):len(list)]
}

func tail(list []cell, room int) []cell {
	for i := len(list) - 1; i >= 0; i-- {
		if room -= list[i].width; room < 0 {
			return list[i+1:]
		}
	}
	return list
}

const zeroWidthJoiner = '\u200d'

// cells takes a text apart into what a terminal shows as one character each.
// Control characters, bytes that are no text, and characters that would change
// the direction of the text or not show at all are replaced by their escapes.
func cells(text []byte) []cell {
	var list []cell
	join := false
	for len(text) > 0 {
		c, size := utf8.DecodeRune(text)
		raw := text[:size]
		text = text[size:]
		if c == utf8.RuneError && size == 1 {
			list = append(list, escape(fmt.Sprintf(`\x%02x`, raw[0])))
			join = false
			continue
		}
		switch {
		case c == '\t':
			list = append(list, cell{text: "    ", width: 4})
		case len(list) > 0 && !strings.HasPrefix(list[len(list)-1].text, `\`) &&
			(join || c == zeroWidthJoiner || unicode.In(c, unicode.Mn, unicode.Me) || isSkinTone(c)):
			list[len(list)-1].text += string(c)
			join = c == zeroWidthJoiner
			continue
		case c < 0x20 || c == 0x7f:
			list = append(list, escape(fmt.Sprintf(`\x%02x`, c)))
		case !unicode.IsGraphic(c):
			list = append(list, escape(strings.Trim(fmt.Sprintf("%+q", c), "'")))
		case isWide(c):
			list = append(list, cell{text: string(c), width: 2})
		default:
			list = append(list, cell{text: string(c), width: 1})
		}
		join = false
	}
	return list
}

func escape(text string) cell { return cell{text: text, width: len(text)} }

// visible returns a text in which nothing can move the cursor or hide.
func visible(text string) string { return joined(cells([]byte(text))) }

func displayWidth(text string) int { return total(cells([]byte(text))) }

func isSkinTone(c rune) bool { return c >= 0x1f3fb && c <= 0x1f3ff }

// isWide reports whether terminals give a character two columns: the East Asian
// scripts and the pictographs.
func isWide(c rune) bool { return unicode.Is(wide, c) }

var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1100, Hi: 0x115f, Stride: 1},
		{Lo: 0x231a, Hi: 0x231b, Stride: 1},
		{Lo: 0x23e9, Hi: 0x23ec, Stride: 1},
		{Lo: 0x23f0, Hi: 0x23f0, Stride: 1},
		{Lo: 0x23f3, Hi: 0x23f3, Stride: 1},
		{Lo: 0x25fd, Hi: 0x25fe, Stride: 1},
		{Lo: 0x2614, Hi: 0x2615, Stride: 1},
		{Lo: 0x2648, Hi: 0x2653, Stride: 1},
		{Lo: 0x267f, Hi: 0x267f, Stride: 1},
		{Lo: 0x2693, Hi: 0x2693, Stride: 1},
		{Lo: 0x26a1, Hi: 0x26a1, Stride: 1},
		{Lo: 0x26aa, Hi: 0x26ab, Stride: 1},
		{Lo: 0x26bd, Hi: 0x26be, Stride: 1},
		{Lo: 0x26c4, Hi: 0x26c5, Stride: 1},
		{Lo: 0x26ce, Hi: 0x26ce, Stride: 1},
		{Lo: 0x26d4, Hi: 0x26d4, Stride: 1},
		{Lo: 0x26ea, Hi: 0x26ea, Stride: 1},
		{Lo: 0x26f2, Hi: 0x26f3, Stride: 1},
		{Lo: 0x26f5, Hi: 0x26f5, Stride: 1},
		{Lo: 0x26fa, Hi: 0x26fa, Stride: 1},
		{Lo: 0x26fd, Hi: 0x26fd, Stride: 1},
		{Lo: 0x2705, Hi: 0x2705, Stride: 1},
		{Lo: 0x270a, Hi: 0x270b, Stride: 1},
		{Lo: 0x2728, Hi: 0x2728, Stride: 1},
		{Lo: 0x274c, Hi: 0x274c, Stride: 1},
		{Lo: 0x274e, Hi: 0x274e, Stride: 1},
		{Lo: 0x2753, Hi: 0x2755, Stride: 1},
		{Lo: 0x2757, Hi: 0x2757, Stride: 1},
		{Lo: 0x2795, Hi: 0x2797, Stride: 1},
		{Lo: 0x27b0, Hi: 0x27b0, Stride: 1},
		{Lo: 0x27bf, Hi: 0x27bf, Stride: 1},
		{Lo: 0x2b1b, Hi: 0x2b1c, Stride: 1},
		{Lo: 0x2b50, Hi: 0x2b50, Stride: 1},
		{Lo: 0x2b55, Hi: 0x2b55, Stride: 1},
		{Lo: 0x2e80, Hi: 0x303e, Stride: 1},
		{Lo: 0x3041, Hi: 0xa4cf, Stride: 1},
		{Lo: 0xa960, Hi: 0xa97f, Stride: 1},
		{Lo: 0xac00, Hi: 0xd7a3, Stride: 1},
		{Lo: 0xf900, Hi: 0xfaff, Stride: 1},
		{Lo: 0xfe30, Hi: 0xfe6f, Stride: 1},
		{Lo: 0xff01, Hi: 0xff60, Stride: 1},
		{Lo: 0xffe0, Hi: 0xffe6, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x16fe0, Hi: 0x18cff, Stride: 1},
		{Lo: 0x1b000, Hi: 0x1b2fb, Stride: 1},
		{Lo: 0x1f300, Hi: 0x1f64f, Stride: 1},
		{Lo: 0x1f680, Hi: 0x1f6ff, Stride: 1},
		{Lo: 0x1f900, Hi: 0x1faff, Stride: 1},
		{Lo: 0x20000, Hi: 0x3fffd, Stride: 1},
	},
}
