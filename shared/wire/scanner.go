package wire

import (
	"bytes"
	"fmt"
)

// scanner checks JSON, as RFC 8259 and encoding/json have it, from pos on.
type scanner struct {
	data  []byte
	pos   int
	depth int
}

// object checks that the whole rest is one object, and gives its members to a
// function, which may stop it with an error. Names are given as they read, not
// as they are written.
func (s *scanner) object(member func(key []byte, value Span) error) error {
	s.space()
	switch s.peek() {
	case '{':
	case '[':
		return invalid(s.pos, "the message is a batch: send each on its own")
	default:
		return s.fail("a message is a JSON object")
	}
	if err := s.members(member); err != nil {
		return err
	}
	if s.space(); s.pos < len(s.data) {
		return s.fail("something follows the message")
	}
	return nil
}

func (s *scanner) value() error {
	switch c := s.peek(); {
	case c == '{':
		return s.members(nil)
	case c == '[':
		return s.elements(nil)
	case c == '"':
		return s.text()
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	default:
		return s.fail("a value is missing")
	}
}

// members checks an object, at whose brace it stands.
func (s *scanner) members(member func(key []byte, value Span) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	if s.space(); s.skip('}') {
		s.depth--
		return nil
	}
	for {
		key := Span{Start: s.pos}
		if s.peek() != '"' {
			return s.fail("the name of a member is missing")
		}
		if err := s.text(); err != nil {
			return err
		}
		key.End = s.pos
		if s.space(); !s.skip(':') {
			return s.fail("a colon is missing")
		}
		s.space()
		value := Span{Start: s.pos}
		if err := s.value(); err != nil {
			return err
		}
		value.End = s.pos
		if member != nil {
			name, _ := Text(s.data[key.Start:key.End])
			if err := member(name, value); err != nil {
				return err
			}
		}
		s.space()
		if s.skip('}') {
			s.depth--
			return nil
		}
		if !s.skip(',') {
			return s.fail("a comma or a closing brace is missing")
		}
		s.space()
	}
}

// elements checks an array, at whose bracket it stands.
func (s *scanner) elements(element func(Span) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	if s.space(); s.skip(']') {
		s.depth--
		return nil
	}
	for {
		start := s.pos
		if err := s.value(); err != nil {
			return err
		}
		if element != nil {
			if err := element(Span{Start: start, End: s.pos}); err != nil {
				return err
			}
		}
		s.space()
		if s.skip(']') {
			s.depth--
			return nil
		}
		if !s.skip(',') {
			return s.fail("a comma or a closing bracket is missing")
		}
		s.space()
	}
}

// enter takes an opening brace or bracket.
func (s *scanner) enter() error {
	if s.depth++; s.depth > maxDepth {
		return s.fail(fmt.Sprintf("the message is nested deeper than %d", maxDepth))
	}
	s.pos++
	return nil
}

// text checks a string, at whose quote it stands.
func (s *scanner) text() error {
	for s.pos++; s.pos < len(s.data); s.pos++ {
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return nil
		case c == '\\':
			if err := s.escape(); err != nil {
				return err
			}
		case c < ' ':
			return s.fail("a string has a control character in it")
		}
	}
	return s.fail("a string does not end")
}

// escape checks an escape in a string, and stays at its last byte.
func (s *scanner) escape() error {
	s.pos++
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
		for range 4 {
			s.pos++
			if !isHex(s.peek()) {
				return s.fail("an escape has no four hexadecimal digits")
			}
		}
		return nil
	default:
		return s.fail("a string has an unknown escape")
	}
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func (s *scanner) number() error {
	s.skip('-')
	if !s.skip('0') && !s.digits() {
		return s.fail("a number has no digits")
	}
	if s.skip('.') && !s.digits() {
		return s.fail("a fraction has no digits")
	}
	if !s.skip('e') && !s.skip('E') {
		return nil
	}
	if !s.skip('+') {
		s.skip('-')
	}
	if !s.digits() {
		return s.fail("an exponent has no digits")
	}
	return nil
}

// digits skips digits, and reports whether there was one.
func (s *scanner) digits() bool {
	start := s.pos
	for s.pos < len(s.data) && '0' <= s.data[s.pos] && s.data[s.pos] <= '9' {
		s.pos++
	}
	return s.pos > start
}

func (s *scanner) literal(want string) error {
	if !bytes.HasPrefix(s.data[s.pos:], []byte(want)) {
		return s.fail("a value is missing")
	}
	s.pos += len(want)
	return nil
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek returns the next byte, and 0, which is in no JSON, at the end.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

// skip takes the next byte if it is c.
func (s *scanner) skip(c byte) bool {
	if s.pos < len(s.data) && s.data[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

func (s *scanner) fail(reason string) error {
	return &Error{CodeParse, s.pos, "this is not JSON: " + reason}
}
