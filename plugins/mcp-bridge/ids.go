package main

import (
	"bytes"
	"regexp"
	"strconv"

	"github.com/plughost/plughost/shared/wire"
)

// unquoted is an id or a token, and of a string that is a whole number the
// number: some servers give that back for it, and the official client for Python,
// say, takes it.
func unquoted(id []byte) []byte {
	text, ok := wire.Text(id)
	if !ok {
		return id
	}
	if _, err := strconv.ParseInt(string(text), 10, 64); err != nil {
		return id
	}
	return text
}

// answerTo is a response under the request's own id, if it answers it.
func answerTo(m wire.Message, id []byte) (wire.Message, bool) {
	got := m.Bytes(m.ID)
	switch {
	case m.Kind != wire.Response:
		return m, false
	case bytes.Equal(got, id):
		return m, true
	case bytes.Equal(unquoted(got), id):
		return m.With(m.ID, id), true
	default:
		return m, false
	}
}

// How servers write responses: with the id before what may be long, or after it.
var (
	idFirst = regexp.MustCompile(`^\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*([0-9]+|"[0-9]+")\s*,\s*"(?:result|error)"`)
	idLast  = regexp.MustCompile(`[}\]"]\s*,\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*([0-9]+|"[0-9]+")\s*\}\s*$`)
	ofLast  = regexp.MustCompile(`^\s*\{\s*"(?:result|error)"`)
)

// answeredAtLength is the id of a response of which only the beginning and the end
// are known, nil if it is not seen.
func answeredAtLength(beginning, end []byte) []byte {
	if found := idFirst.FindSubmatch(beginning); found != nil {
		return found[1]
	}
	if found := idLast.FindSubmatch(end); found != nil && ofLast.Match(beginning) {
		return found[1]
	}
	return nil
}
