// Package wire reads the envelope of a JSON-RPC 2.0 message from its bytes, and
// nothing else of it: what kind of message it is, its method, its id, and where
// the rest stands. Who passes messages on need not decode them then, which is
// what costs; and what it does not know stays as it is.
//
// Scan accepts no message that two readers could take for two different ones:
// one whose envelope has a member twice, or has one that differs from a known
// one in case only, which some decoders take for it.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
)

// maxDepth is how deep a message may be nested. It is what the official Go SDK
// accepts.
const maxDepth = 1000

// Kind is what a message is.
type Kind uint8

// The kinds of messages.
const (
	Request Kind = iota + 1
	Notification
	Response
)

func (k Kind) String() string {
	switch k {
	case Request:
		return "request"
	case Notification:
		return "notification"
	case Response:
		return "response"
	default:
		return "invalid"
	}
}

// Codes of JSON-RPC errors.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
)

// Error says why bytes are no message that can be passed on.
type Error struct {
	Code   int // the JSON-RPC code to answer with
	Offset int // of the byte at fault
	Reason string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s (at byte %d)", e.Reason, e.Offset)
}

// Span is where a value stands in a message: the bytes from Start up to End. It
// is the zero Span if the message has no such value.
type Span struct{ Start, End int }

// Found reports whether there is such a value.
func (s Span) Found() bool { return s.End > 0 }

// Message is a message's envelope. Its spans are within Raw.
type Message struct {
	Raw  []byte // the message itself, not a copy
	Kind Kind
	// Method is empty in a response. It may share its bytes with Raw.
	Method []byte
	// ID is of a string or a number. An error may come without, or with null.
	ID Span

	Params, Result, Error Span
}

// Bytes returns the bytes of a value, nil if there is none.
func (m *Message) Bytes(s Span) []byte {
	if !s.Found() {
		return nil
	}
	return m.Raw[s.Start:s.End]
}

// Scan reads the envelope of data, one message. It checks that all of it is
// JSON. Its errors are of type *Error. A batch is one: no revision of MCP but
// 2025-03-26 has them.
func Scan(data []byte) (Message, error) {
	m := Message{Raw: data}
	s := scanner{data: data}
	var version, method Span
	err := s.object(func(key []byte, value Span) error {
		var member *Span
		switch string(key) {
		case "jsonrpc":
			member = &version
		case "id":
			member = &m.ID
		case "method":
			member = &method
		case "params":
			member = &m.Params
		case "result":
			member = &m.Result
		case "error":
			member = &m.Error
		default:
			return lookalike(key, value)
		}
		if member.Found() {
			return invalid(value.Start, fmt.Sprintf("the message has the member %q twice", key))
		}
		*member = value
		return nil
	})
	if err != nil {
		return Message{}, err
	}
	if got, ok := Text(m.Bytes(version)); !ok || string(got) != "2.0" {
		return Message{}, invalid(version.Start, `"jsonrpc" is not "2.0"`)
	}
	if err := m.classify(method); err != nil {
		return Message{}, err
	}
	return m, nil
}

// classify finds out what kind of message it is, if it is one.
func (m *Message) classify(method Span) error {
	answer := m.Result.Found() || m.Error.Found()
	switch {
	case method.Found() && answer:
		return invalid(method.Start, "a message is a request or a response, and not both")
	case method.Found():
		var ok bool
		if m.Method, ok = Text(m.Bytes(method)); !ok {
			return invalid(method.Start, `"method" is not a string`)
		}
		m.Kind = Notification
		if m.ID.Found() {
			m.Kind = Request
		}
	case m.Result.Found() && m.Error.Found():
		return invalid(m.Error.Start, `a response has "result" or "error", and not both`)
	case answer:
		m.Kind = Response
	default:
		return invalid(0, `the message has no "method", no "result" and no "error"`)
	}
	return m.checkID()
}

func (m *Message) checkID() error {
	id := m.Bytes(m.ID)
	switch {
	case len(id) == 0:
		if m.Result.Found() {
			return invalid(m.Result.Start, `a result has no "id"`)
		}
	case id[0] == '"' || id[0] == '-' || '0' <= id[0] && id[0] <= '9':
	case string(id) == "null" && m.Error.Found():
	default:
		return invalid(m.ID.Start, `"id" is neither a string nor a number`)
	}
	return nil
}

// lookalike refuses a member whose name is a known one in another case.
func lookalike(key []byte, value Span) error {
	for _, known := range [...]string{"jsonrpc", "id", "method", "params", "result", "error"} {
		if bytes.EqualFold(key, []byte(known)) {
			return invalid(value.Start, fmt.Sprintf("the message has the member %q, which is like %q", key, known))
		}
	}
	return nil
}

// Param finds a value inside of the parameters. See Find.
func (m *Message) Param(path ...string) (Span, error) { return m.Find(m.Params, path...) }

// Find finds a value inside of another one by the names of the members on the
// way to it. It is not found where something on the way is no object. The error,
// of type *Error, says that a member on the way is there twice, or also in
// another case.
func (m *Message) Find(at Span, path ...string) (Span, error) {
	for i := range path {
		var found [1]Span
		if err := m.pick(at, path[i:i+1], found[:]); err != nil {
			return Span{}, err
		}
		at = found[0]
	}
	return at, nil
}

// Elements yields the elements of an array, none of what is no array.
func (m *Message) Elements(array Span) iter.Seq[Span] {
	return func(yield func(Span) bool) {
		if !array.Found() || m.Raw[array.Start] != '[' {
			return
		}
		s := scanner{data: m.Raw[:array.End], pos: array.Start}
		_ = s.elements(func(element Span) error {
			if !yield(element) {
				return errStopped
			}
			return nil
		})
	}
}

// Pick finds several members of an object at once, by their names, and returns
// them in that order. What is no object has none of them. The error, of type
// *Error, says that one of them is there twice, or also in another case.
func (m *Message) Pick(object Span, names ...string) ([]Span, error) {
	picked := make([]Span, len(names))
	if err := m.pick(object, names, picked); err != nil {
		return nil, err
	}
	return picked, nil
}

func (m *Message) pick(object Span, names []string, picked []Span) error {
	if !object.Found() || m.Raw[object.Start] != '{' {
		return nil
	}
	s := scanner{data: m.Raw[:object.End], pos: object.Start}
	return s.object(func(key []byte, value Span) error {
		for i, name := range names {
			switch {
			case string(key) == name && picked[i].Found():
				return &Error{CodeInvalidParams, value.Start, fmt.Sprintf("the member %q is there twice", name)}
			case string(key) == name:
				picked[i] = value
			case len(key) >= len(name) && bytes.EqualFold(key, []byte(name)):
				return &Error{CodeInvalidParams, value.Start, fmt.Sprintf("the member %q is like %q", key, name)}
			}
		}
		return nil
	})
}

// ProgressToken finds the token of a request that wants to hear of its
// progress, or the one of a progress notification.
func (m *Message) ProgressToken() (Span, error) {
	if m.Kind == Notification {
		return m.Param("progressToken")
	}
	return m.Param("_meta", "progressToken")
}

// CancelledID finds the id of the request that a notifications/cancelled is
// about.
func (m *Message) CancelledID() (Span, error) { return m.Param("requestId") }

// Replace appends to dst the message with other bytes in the place of a value
// that was found. It may be JSON only.
func (m *Message) Replace(dst []byte, at Span, value []byte) []byte {
	dst = append(dst, m.Raw[:at.Start]...)
	dst = append(dst, value...)
	return append(dst, m.Raw[at.End:]...)
}

// With returns the message with other bytes in the place of a value that was
// found in it. It may be JSON only.
func (m *Message) With(at Span, value []byte) Message {
	with := *m
	with.Raw = m.Replace(make([]byte, 0, len(m.Raw)+len(value)), at, value)
	longer := len(value) - (at.End - at.Start)
	for _, s := range [...]*Span{&with.ID, &with.Params, &with.Result, &with.Error} {
		if s.Start >= at.End {
			s.Start += longer
		}
		if s.End >= at.End && s.Found() {
			s.End += longer
		}
	}
	return with
}

// Text returns the content of a JSON string, and whether it is one. Without
// escapes in it the content shares its bytes.
func Text(value []byte) (content []byte, ok bool) {
	if len(value) < 2 || value[0] != '"' {
		return nil, false
	}
	inner := value[1 : len(value)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner, true
	}
	var decoded string
	if err := json.Unmarshal(value, &decoded); err != nil {
		return nil, false
	}
	return []byte(decoded), true
}

// Line returns a message that Scan accepted on one line: JSON has line breaks
// only between its tokens, where a blank does as well. It is data itself if
// that has none.
func Line(data []byte) []byte {
	if bytes.IndexByte(data, '\n') < 0 && bytes.IndexByte(data, '\r') < 0 {
		return data
	}
	line := bytes.Clone(data)
	for i, c := range line {
		if c == '\n' || c == '\r' {
			line[i] = ' '
		}
	}
	return line
}

// errStopped ends a walk through elements of which no more are wanted.
var errStopped = errors.New("stopped")

func invalid(offset int, reason string) error {
	return &Error{CodeInvalidRequest, offset, reason}
}
