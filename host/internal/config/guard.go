package config

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// The parser recurses, and a Go program cannot recover from running out of
// stack. So a file is measured by its tokens before it is parsed; the limits are
// far above what anybody writes and far below what hurts.
const (
	maxFileSize  = 1 << 20 // bytes
	maxSize      = 8 << 20 // bytes of all files; some fifty thousand services
	maxBrackets  = 100     // open at once
	maxPrefixes  = 100     // of ! and - in a row
	maxOperators = 10_000  // in a file

	maxHeredocs       = 5_000 // in a file, or what looks like one
	maxExponentDigits = 3     // of a number
)

var heredocMark = regexp.MustCompile(`<<-?[\pL_]`)

// guardNative refuses a hostile file in native syntax. It also finds a heredoc
// that is never closed, which the parser would report at the end of the file.
func guardNative(src []byte, name string, diags *collector) (*openHeredoc, bool) {
	if !guardSize(src, name, diags) {
		return nil, false
	}
	// Each heredoc in an unclosed one makes the lexer slower, so this is counted
	// without it.
	if marks := heredocMark.FindAllIndex(src, maxHeredocs+1); len(marks) > maxHeredocs {
		last := marks[maxHeredocs]
		refuse(fmt.Sprintf("More than %d heredocs", maxHeredocs), rangeAt(src, name, last[0], last[1]), diags)
		return nil, false
	}
	// Faults of the lexer are not lost: parsing reports them again.
	tokens, _ := hclsyntax.LexConfig(src, name, hcl.InitialPos)
	var m meter
	if summary, at := m.measure(tokens); summary != "" {
		refuse(summary, at, diags)
		return nil, false
	}
	return findOpenHeredoc(tokens), true
}

func guardSize(src []byte, name string, diags *collector) bool {
	if len(src) <= maxFileSize {
		return true
	}
	diags.errorf(hcl.Range{Filename: name}, "File too large",
		"%s has more than 1 MiB. Split it into several files of one directory.", quote(name))
	return false
}

func refuse(summary string, at hcl.Range, diags *collector) {
	diags.errorf(at, summary, "The file is refused as a whole, since input like this could exhaust the host. Nobody needs that much: is a bracket or a quote missing?")
}

// meter counts what makes the parser recurse.
type meter struct {
	open      []hclsyntax.TokenType // closing tokens that are still to come
	prefixes  int
	operators int
	controls  int // template if and for that are still to be ended
}

// measure returns which limit the tokens break, and where; or nothing.
func (m *meter) measure(tokens hclsyntax.Tokens) (summary string, at hcl.Range) {
	for i, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenComment, hclsyntax.TokenNewline:
			continue // they may stand between prefixes
		case hclsyntax.TokenOBrace, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl,
			hclsyntax.TokenOBrack, hclsyntax.TokenOParen:
			m.open = append(m.open, closing(t.Type))
			if t.Type == hclsyntax.TokenTemplateControl {
				m.control(tokens[i+1:])
			}
		case hclsyntax.TokenCBrace, hclsyntax.TokenTemplateSeqEnd, hclsyntax.TokenCBrack, hclsyntax.TokenCParen:
			m.close(t.Type)
		case hclsyntax.TokenNumberLit:
			if hugeNumber(t.Bytes) {
				return numberTooLarge, t.Range
			}
		case hclsyntax.TokenBang, hclsyntax.TokenMinus:
			m.prefixes++
			m.operators++
			if m.prefixes > maxPrefixes {
				return fmt.Sprintf(`More than %d "!" or "-" in a row`, maxPrefixes), t.Range
			}
			if m.operators > maxOperators {
				return tooManyOperators, t.Range
			}
			continue
		case hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPlus, hclsyntax.TokenPercent,
			hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual,
			hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq, hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq,
			hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenQuestion:
			m.operators++
			if m.operators > maxOperators {
				return tooManyOperators, t.Range
			}
		}
		m.prefixes = 0
		if len(m.open)+m.controls > maxBrackets {
			return fmt.Sprintf("More than %d open brackets", maxBrackets), t.Range
		}
	}
	return "", hcl.Range{}
}

const numberTooLarge = "Number too large"

var tooManyOperators = fmt.Sprintf("More than %d operators", maxOperators)

// hugeNumber reports whether a number has an exponent that would make it fill
// the memory when it is written out.
func hugeNumber(text []byte) bool {
	e := bytes.IndexAny(text, "eE")
	if e < 0 {
		return false
	}
	digits := bytes.TrimLeft(bytes.TrimLeft(text[e+1:], "+-"), "0")
	return len(digits) > maxExponentDigits
}

// close ends the innermost bracket of a type and all that were left open in it,
// as the parser does when it recovers from a fault. One that was never opened is
// not counted.
func (m *meter) close(t hclsyntax.TokenType) {
	for i, want := range slices.Backward(m.open) {
		if want == t {
			m.open = m.open[:i]
			return
		}
	}
}

// control counts how deep the directives of templates are nested.
func (m *meter) control(rest hclsyntax.Tokens) {
	for _, t := range rest {
		switch t.Type {
		case hclsyntax.TokenNewline, hclsyntax.TokenComment:
			continue
		case hclsyntax.TokenIdent:
			switch string(t.Bytes) {
			case "if", "for":
				m.controls++
			case "endif", "endfor":
				m.controls = max(m.controls-1, 0)
			}
		}
		return
	}
}

func closing(open hclsyntax.TokenType) hclsyntax.TokenType {
	switch open {
	case hclsyntax.TokenOBrace:
		return hclsyntax.TokenCBrace
	case hclsyntax.TokenOBrack:
		return hclsyntax.TokenCBrack
	case hclsyntax.TokenOParen:
		return hclsyntax.TokenCParen
	default:
		return hclsyntax.TokenTemplateSeqEnd
	}
}

// guardJSON refuses a hostile file in JSON syntax. Its strings are templates,
// which are measured like native syntax. text is src without a byte order mark.
func guardJSON(src, text []byte, name string, diags *collector) bool {
	if !guardSize(src, name, diags) {
		return false
	}
	skipped := len(src) - len(text)
	var m meter
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '{':
			m.open = append(m.open, hclsyntax.TokenCBrace)
		case '[':
			m.open = append(m.open, hclsyntax.TokenCBrack)
		case '}':
			m.close(hclsyntax.TokenCBrace)
		case ']':
			m.close(hclsyntax.TokenCBrack)
		case '"':
			end := stringEnd(text, i)
			template := meter{operators: m.operators}
			tokens := templateTokens(text[i:end], name)
			summary, _ := template.measure(tokens)
			if summary != "" {
				refuse(summary, rangeAt(src, name, skipped+i, skipped+end), diags)
				return false
			}
			m.operators = template.operators
			i = end - 1
		case 'e', 'E':
			end := i + 1
			for end < len(text) && strings.IndexByte("+-0123456789", text[end]) >= 0 {
				end++
			}
			if hugeNumber(text[i:end]) {
				refuse(numberTooLarge, rangeAt(src, name, skipped+i, skipped+end), diags)
				return false
			}
		}
		if len(m.open) > maxBrackets {
			refuse(fmt.Sprintf("More than %d open brackets", maxBrackets), rangeAt(src, name, skipped+i, skipped+i+1), diags)
			return false
		}
	}
	return true
}

// stringEnd returns the offset after the JSON string that begins at start.
func stringEnd(text []byte, start int) int {
	for i := start + 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// templateTokens returns the tokens of a quoted JSON string, or none if it is
// no template.
func templateTokens(quoted []byte, name string) hclsyntax.Tokens {
	var s string
	if stdjson.Unmarshal(quoted, &s) != nil {
		return nil // parsing reports it
	}
	if !strings.Contains(s, "${") && !strings.Contains(s, "%{") {
		return nil
	}
	tokens, _ := hclsyntax.LexTemplate([]byte(s), name, hcl.InitialPos)
	return tokens
}

// rangeAt returns the range of the bytes from start to end of a file.
func rangeAt(src []byte, name string, start, end int) hcl.Range {
	return hcl.Range{Filename: name, Start: posAt(src, start), End: posAt(src, end)}
}

func posAt(src []byte, offset int) hcl.Pos {
	offset = min(offset, len(src))
	lineStart := bytes.LastIndexByte(src[:offset], '\n') + 1
	pos := hcl.Pos{Byte: offset, Line: bytes.Count(src[:lineStart], []byte("\n")) + 1, Column: 1}
	all := func(data []byte, _ bool) (int, []byte, error) { return len(data), data, nil }
	line := hcl.NewRangeScanner(bytes.TrimPrefix(src[lineStart:offset], byteOrderMark), "", all)
	if line.Scan() {
		pos.Column = line.Range().End.Column
	}
	return pos
}

// openHeredoc is a heredoc that is never closed.
type openHeredoc struct {
	word string
	rng  hcl.Range // of <<WORD
}

func findOpenHeredoc(tokens hclsyntax.Tokens) *openHeredoc {
	var open []hclsyntax.Token
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOHeredoc:
			open = append(open, t)
		case hclsyntax.TokenCHeredoc:
			if len(open) > 0 {
				open = open[:len(open)-1]
			}
		}
	}
	if len(open) == 0 {
		return nil
	}
	t := open[len(open)-1]
	mark := bytes.TrimRight(t.Bytes, "\r\n")
	rng := t.Range
	rng.End = rng.Start
	rng.End.Byte += len(mark)
	rng.End.Column += len([]rune(string(mark)))
	return &openHeredoc{word: strings.TrimLeft(string(mark), "<-"), rng: rng}
}

// explain puts the heredoc in the place of what the parser made of it. Faults
// before it stand; an unclosed block around it is only a consequence.
func (h *openHeredoc) explain(src []byte, diags hcl.Diagnostics) hcl.Diagnostics {
	var kept hcl.Diagnostics
	for _, d := range diags {
		if d.Subject != nil && d.Subject.End.Byte <= h.rng.Start.Byte && !strings.HasPrefix(d.Summary, "Unclosed ") {
			kept = append(kept, d)
		}
	}
	detail := fmt.Sprintf("The text that begins here runs to the end of the file. A line with nothing but %s must end it.", h.word)
	line := h.rng.Start.Line
	for _, text := range strings.Split(string(src[h.rng.End.Byte:]), "\n")[1:] {
		line++
		if strings.HasPrefix(strings.TrimSpace(text), h.word) {
			detail += fmt.Sprintf(" On line %d the word is there, but it does not stand alone.", line)
			break
		}
	}
	return append(kept, &hcl.Diagnostic{
		Severity: hcl.DiagError, Summary: "Heredoc is never closed", Detail: detail, Subject: &h.rng,
	})
}
