package main

import (
	"bytes"
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
