package relay

import (
	"bytes"

	"github.com/plughost/plughost/shared/wire"
)

// Only where some of a service's tools are hidden, their lists and calls are
// looked into.

// allowed returns the tool that a request calls, if it calls one, or why it is
// not passed on: the tool is hidden. visible is nil if none is.
func allowed(visible func(string) bool, m *wire.Message) (tool string, err error) {
	if string(m.Method) != "tools/call" {
		return "", nil
	}
	at, err := m.Param("name")
	name, ok := wire.Text(m.Bytes(at))
	switch {
	case err != nil && visible != nil:
		return "", err
	case err != nil || !ok:
		return "", nil // the plugin says what it thinks of it
	case visible != nil && !visible(string(name)):
		return "", unknownTool(string(name))
	}
	return string(name), nil
}

func unknownTool(name string) error {
	return refusef(wire.CodeInvalidParams, "unknown tool %q", name)
}

// editor returns what takes hidden tools out of an answer, or nil.
func editor(visible func(string) bool, m *wire.Message) func(*wire.Message) *wire.Message {
	if visible == nil || string(m.Method) != "tools/list" {
		return nil
	}
	return func(answer *wire.Message) *wire.Message { return onlyVisible(visible, answer) }
}

// onlyVisible takes the tools out of a list that are hidden.
func onlyVisible(visible func(string) bool, answer *wire.Message) *wire.Message {
	list, err := answer.Find(answer.Result, "tools")
	if err != nil || !list.Found() {
		return answer
	}
	var shown [][]byte
	for tool := range answer.Elements(list) {
		at, err := answer.Find(tool, "name")
		if name, ok := wire.Text(answer.Bytes(at)); err == nil && ok && visible(string(name)) {
			shown = append(shown, answer.Bytes(tool))
		}
	}
	array := append([]byte{'['}, bytes.Join(shown, []byte{','})...)
	edited, err := wire.Scan(answer.Replace(nil, list, append(array, ']')))
	if err != nil { // it is what it was, with less in it
		return answer
	}
	return &edited
}
