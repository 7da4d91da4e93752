//go:build unix

package main

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"strings"
	"testing"

	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/wire"
)

// FuzzServer has a server write anything, with calls in flight and a client that
// listens: what the client gets are messages.
func FuzzServer(f *testing.F) {
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":2,"result":{"a":1}}`,
		`{"id":2,"result":[],"jsonrpc":"2.0"}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`,
		`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://watched"}}`,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug"}}`,
		`{"jsonrpc":"2.0","id":"x","method":"elicitation/create","params":{}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`,
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		m := newMux(launcher{}, &shared.Work{}, log.New(io.Discard, "", 0))
		c := newClient(m.work, func(error) {})
		up, err := m.open(c)
		if err != nil {
			t.Fatal(err)
		}
		s := up.(*member)
		s.ready = true
		s.subscribed[watched] = true
		s.listeners["7"] = &listener{id: []byte("7")}
		for id, added := range map[string][]addition{`"a"`: nil, "7": {{"resultType", `"complete"`}}} {
			if _, open := s.add(&call{member: s, id: []byte(id), token: []byte("1.5"), added: added, asks: true}); !open {
				t.Fatal("the session is closed")
			}
		}
		p := &process{log: log.New(io.Discard, "", 0)}
		p.read(newLines(strings.NewReader(line)), m.receive)
		frames, _ := c.take()
		for _, frame := range frames {
			if _, err := wire.Scan(frame.GetMessage()); err != nil {
				t.Errorf("the client gets %q: %v", frame.GetMessage(), err)
			}
		}
	})
}

// said is a server without sessions that answers everything with one message.
type said struct{ message string }

func (said) said() hello {
	return hello{stateless, map[string]json.RawMessage{"capabilities": []byte("{}")}}
}

func (s said) ask(_ context.Context, request wire.Message, deliver func(wire.Message)) error {
	m, err := wire.Scan([]byte(s.message))
	if err != nil || m.Kind != wire.Response {
		return errServerEnded
	}
	if at := request.ID; m.ID.Found() {
		m, err = wire.Scan(m.Replace(nil, m.ID, request.Bytes(at)))
	}
	deliver(m)
	return err
}

// Whatever a client with a session says, and a server without answers to it, the
// client gets nothing but messages.
func FuzzClientWithASession(f *testing.F) {
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"x":1}}}`, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}},"requestState":"s"}}`)
	f.Add(`{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}`)
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":[]}`, `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}`)
	f.Fuzz(func(t *testing.T, asks, answers string) {
		m, err := wire.Scan([]byte(asks))
		if err != nil || m.Kind != wire.Request {
			return
		}
		c := newClient(&shared.Work{}, func(error) {})
		g := newGuest(t.Context(), said{answers}, c)
		g.close() // nobody waits
		switch string(m.Method) {
		case "initialize", "logging/setLevel", "resources/unsubscribe":
			g.elder.request(m)
		default:
			_ = g.elder.call(g.life, m)
		}
		frames, _ := c.take()
		for _, frame := range frames {
			if _, err := wire.Scan(frame.GetMessage()); err != nil {
				t.Errorf("the client gets %q: %v", frame.GetMessage(), err)
			}
		}
	})
}

func FuzzEvents(f *testing.F) {
	f.Add("id: 1\ndata: {}\n\n")
	f.Add("data\r\ndata:\r\n\r\nretry: -1\n")
	f.Fuzz(func(_ *testing.T, text string) {
		s := &answerStream{deliver: func(wire.Message) bool { return false }}
		_ = s.events(io.NopCloser(strings.NewReader(text)))
	})
}
