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

// scan makes a message of its text.
func scan(t *testing.T, text string) wire.Message {
	t.Helper()
	m, err := wire.Scan([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestTasksAreTheirClients has two sessions of a server, of which one has begun
// a task.
func TestTasksAreTheirClients(t *testing.T) {
	t.Parallel()
	m := newMux(launcher{}, &shared.Work{}, log.New(io.Discard, "", 0))
	m.server = &process{input: make(chan []byte, 1), inputEnd: make(chan struct{})}
	join := func() (*member, *client) {
		c := newClient(m.work, func(error) {})
		up, err := m.open(c)
		if err != nil {
			t.Fatal(err)
		}
		s := up.(*member)
		s.ready = true
		return s, c
	}
	owner, ownerClient := join()
	other, otherClient := join()
	say := func(s *member, text string) {
		t.Helper()
		if err := s.send(t.Context(), scan(t, text)); err != nil {
			t.Fatal(err)
		}
	}
	heard := func(c *client) string {
		var all strings.Builder
		for _, frame := range c.take() {
			all.Write(frame.GetMessage())
		}
		return all.String()
	}
	say(owner, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","task":{"ttl":1000}}}`)
	<-m.server.input
	m.receive(scan(t, `{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"T","status":"working"}}}`))
	heard(ownerClient)

	m.receive(scan(t, `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"T","status":"completed"}}`))
	if got := heard(ownerClient); !strings.Contains(got, "completed") {
		t.Errorf("of its task the client hears %q", got)
	}
	for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel", "tasks/list"} {
		say(other, `{"jsonrpc":"2.0","id":"x","method":"`+method+`","params":{"taskId":"T"}}`)
	}
	if got := heard(otherClient); strings.Count(got, `"error"`) != 4 || strings.Contains(got, "completed") {
		t.Errorf("of somebody else's task the client hears %s, want four refusals", got)
	}
	say(owner, `{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"T"}}`)
	if got := string(<-m.server.input); !strings.Contains(got, "tasks/result") {
		t.Errorf("the server is sent %s", got)
	}
	owner.close()
	if len(m.tasks) != 0 {
		t.Error("the task of a client that has gone is kept")
	}
	if got, want := string(withoutTaskList([]byte(`{"tasks":{"list":{},"cancel":{}},"tools":{}}`))), `{"tasks":{"cancel":{}},"tools":{}}`; got != want {
		t.Errorf("the capabilities are %s, want %s", got, want)
	}
}
