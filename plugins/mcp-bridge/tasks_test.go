//go:build unix

package main

import (
	"io"
	"log"
	"strconv"
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

// idle is a mux whose server is only written to.
type idle struct {
	*mux
	t *testing.T
}

func newIdle(t *testing.T) idle {
	m := newMux(launcher{}, &shared.Work{}, log.New(io.Discard, "", 0))
	m.server = &process{input: make(chan []byte, 1), inputEnd: make(chan struct{})}
	return idle{m, t}
}

func (m idle) join() (*member, *client) {
	m.t.Helper()
	c := newClient(m.work, func(error) {})
	up, err := m.open(c)
	if err != nil {
		m.t.Fatal(err)
	}
	s := up.(*member)
	s.ready = true
	return s, c
}

func (m idle) say(s *member, text string) {
	m.t.Helper()
	if err := s.send(m.t.Context(), scan(m.t, text)); err != nil {
		m.t.Fatal(err)
	}
}

func (m idle) heard(c *client) string {
	var all strings.Builder
	frames, _ := c.take()
	for _, frame := range frames {
		all.Write(frame.GetMessage())
	}
	return all.String()
}

// TestTasksAreTheirClients has two sessions of a server, of which one has begun
// a task.
func TestTasksAreTheirClients(t *testing.T) {
	t.Parallel()
	m := newIdle(t)
	owner, ownerClient := m.join()
	other, otherClient := m.join()
	m.say(owner, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","task":{"ttl":1000}}}`)
	<-m.server.input
	m.receive(scan(t, `{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"T","status":"working"}}}`))
	m.heard(ownerClient)

	m.receive(scan(t, `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"T","status":"completed"}}`))
	if got := m.heard(ownerClient); !strings.Contains(got, "completed") {
		t.Errorf("of its task the client hears %q", got)
	}
	for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel", "tasks/list"} {
		m.say(other, `{"jsonrpc":"2.0","id":"x","method":"`+method+`","params":{"taskId":"T"}}`)
	}
	if got := m.heard(otherClient); strings.Count(got, `"error"`) != 4 || strings.Contains(got, "completed") {
		t.Errorf("of somebody else's task the client hears %s, want four refusals", got)
	}
	m.say(owner, `{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"T"}}`)
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

func TestTasksOfAClientAreBounded(t *testing.T) {
	t.Parallel()
	m := newIdle(t)
	other, _ := m.join()
	s, _ := m.join()
	begin := func(s *member, id string) {
		m.begun(s, scan(t, `{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"`+id+`"}}}`))
	}
	begin(other, "other's")
	for range 2 { // a server may say the same again
		begin(s, "first")
	}
	for n := range maxTasks - 1 {
		begin(s, strconv.Itoa(n))
	}
	begin(s, strings.Repeat("x", maxTaskID+1))
	if len(m.tasks) != maxTasks+1 || m.tasks["first"] != s {
		t.Fatalf("%d tasks are known, and the first one is %t, want %d, true", len(m.tasks), m.tasks["first"] == s, maxTasks+1)
	}
	begin(s, "last")
	if m.tasks["first"] != nil || m.tasks["0"] != s || m.tasks["last"] != s || m.tasks["other's"] != other || len(m.tasks) != maxTasks+1 {
		t.Errorf("of %d tasks it is not the oldest that is forgotten", len(m.tasks))
	}
	s.close()
	if len(m.tasks) != 1 {
		t.Errorf("%d tasks are known when only another client's are left", len(m.tasks))
	}
}

// TestCallWaitsForItsClient has a server ask, in the course of a call that
// stands alone, and end the call before its client has come back.
func TestCallWaitsForItsClient(t *testing.T) {
	t.Parallel()
	m := newIdle(t)
	s, c := m.join()
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
	m.say(s, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t",`+meta+`}}`)
	<-m.server.input
	m.receive(scan(t, `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?"}}`))
	asked := scan(t, m.heard(c))
	at, err := asked.Find(asked.Result, "requestState")
	if err != nil || !at.Found() {
		t.Fatalf("the client is not asked: %s", asked.Raw)
	}
	state := string(asked.Bytes(at))
	m.receive(scan(t, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`))
	again := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","requestState":` + state + `,"inputResponses":{"input":{"action":"accept"}},` + meta + `}}`
	other, otherClient := m.join() // as after a connection that broke
	m.say(other, again)
	if got, want := m.heard(otherClient), `{"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","content":[]}}`; got != want {
		t.Errorf("the client that has come back hears %s, want %s", got, want)
	}
	m.say(other, again)
	if got := m.heard(otherClient); !strings.Contains(got, "no request that waits") {
		t.Errorf("the client that comes back twice hears %s, want a refusal", got)
	}
}
