//go:build unix

package main

import (
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
		for id, added := range map[string]string{`"a"`: "", "7": `"resultType":"complete"`} {
			if _, open := s.add(&call{member: s, id: []byte(id), token: []byte("1.5"), added: []byte(added), asks: true}); !open {
				t.Fatal("the session is closed")
			}
		}
		p := &process{log: log.New(io.Discard, "", 0)}
		p.read(strings.NewReader(line), m.receive)
		for _, frame := range c.take() {
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
