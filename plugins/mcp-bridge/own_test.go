//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/bridge"
	"github.com/plughost/plughost/shared/wire"
)

// told is what the bridge itself has said to the server since it was asked last.
func (m idle) told() []wire.Message {
	m.t.Helper()
	var told []wire.Message
	for _, message := range m.takeOwn() {
		told = append(told, scan(m.t, string(message)))
	}
	return told
}

// answer has the server answer a request with nothing.
func (m idle) answer(request wire.Message) {
	m.receive(scan(m.t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, request.Bytes(request.ID))))
}

// sent is what was sent to the server for a client.
func (m idle) sent() wire.Message {
	m.t.Helper()
	return scan(m.t, string(<-m.server.input))
}

// A client may leave with any number of calls in flight, and the server hears of
// each that nobody waits for it.
func TestServerHearsOfEachCallThatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	const calls = 1000
	m := newIdle(t)
	s, _ := m.join()
	for id := range calls {
		if _, open := s.add(&call{member: s, id: fmt.Append(nil, id)}); !open {
			t.Fatal("the session is closed")
		}
	}
	s.close()
	if got := len(m.told()); got != calls {
		t.Errorf("the server hears of %d calls, want %d", got, calls)
	}
}

// A server that asks and asks, and reads nothing, is ended.
func TestServerThatDoesNotReadIsEnded(t *testing.T) {
	t.Parallel()
	const script = `read line
echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}'
exec yes '{"jsonrpc":"2.0","id":1,"method":"ping"}'`
	start := launcher{
		target: bridge.Target{Path: "/bin/sh", Args: []string{"sh", "-c", script}},
		stderr: io.Discard, log: log.New(io.Discard, "", 0), spawn: newSpawner(),
	}
	m := newMux(start, &shared.Work{}, start.log)
	ended := make(chan struct{})
	m.exit = func(*shared.ExitError) { close(ended) }
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	defer m.stopServer(signalGrace)
	within(t, ended, "the server was ended")
}

// What the bridge says may overtake what clients say, or be overtaken.
func TestSubscriptionOutlivesTheEndOfTheOneBefore(t *testing.T) {
	t.Parallel()
	const about = `"params":{"uri":"test://watched"}`
	m := newIdle(t)
	subscribe := func(s *member) {
		m.say(s, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe",`+about+`}`)
		m.answer(m.sent())
	}
	first, _ := m.join()
	subscribe(first)
	first.close()
	left := m.told()
	second, _ := m.join()
	subscribe(second) // before the server hears that the first has left
	for _, unsubscribe := range left {
		m.answer(unsubscribe)
	}
	if told := m.told(); len(told) != 1 || string(told[0].Method) != "resources/subscribe" || uriOf(told[0]) != watched {
		t.Errorf("the server is told %v, want to tell of the resource again", told)
	}
	m.say(second, `{"jsonrpc":"2.0","id":2,"method":"resources/unsubscribe",`+about+`}`)
	m.answer(m.sent())
	if told := m.told(); len(told) != 0 {
		t.Errorf("when nobody is subscribed the server is told %v", told)
	}
}

func TestClientsListenToBoundedlyMany(t *testing.T) {
	t.Parallel()
	m := newIdle(t)
	m.hello.result = map[string]json.RawMessage{"capabilities": []byte(`{"resources":{"subscribe":true}}`)}
	listen := func(many int) string {
		s, c := m.join()
		m.say(s, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["a"`+strings.Repeat(`,"a"`, many-1)+`]},`+
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
		return m.heard(c)
	}
	if got := listen(maxFollowed); !strings.Contains(got, methodAcknowledged) || len(m.told()) != maxFollowed {
		t.Errorf("who listens to %d resources is answered %s", maxFollowed, got)
	}
	if got := listen(maxFollowed + 1); !strings.Contains(got, errTooMany.Error()) || len(m.told()) != 0 {
		t.Errorf("who listens to one more is answered %s", got)
	}
}

// Over the years clients may listen to any number of resources.
func TestServerTellsOnlyOfWhatIsListenedTo(t *testing.T) {
	t.Parallel()
	m := newIdle(t)
	m.server.drained = make(chan struct{})
	m.hello = hello{stateless, map[string]json.RawMessage{"capabilities": []byte(`{"resources":{"subscribe":true}}`)}}
	acknowledge := func() {
		for _, said := range m.told() {
			if said.Kind == wire.Request {
				m.receive(scan(t, fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{"_meta":{%q:%s}}}`, methodAcknowledged, mcp.MetaKeySubscriptionID, said.Bytes(said.ID))))
			}
		}
	}
	// listen returns when a client listens to a resource.
	listen := func(uri string) (heard <-chan string, leave func()) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		hears, ended := make(chan string, 10), make(chan error, 1)
		request := scan(t, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["`+uri+`"]}}}`)
		go func() {
			ended <- m.ask(ctx, request, func(got wire.Message) { hears <- string(got.Method) })
		}()
		for {
			acknowledge()
			select {
			case <-hears:
				return hears, func() { cancel(); t.Log("ended:", <-ended) }
			case err := <-ended:
				t.Fatalf("%s is not told of: %v", uri, err)
			case <-m.filled:
			}
		}
	}
	heard, _ := listen("a:kept")
	for i := range 2 * maxFollowed {
		_, leave := listen(fmt.Sprintf("a:%d", i))
		leave()
	}
	if n := len(m.followed); n > maxFollowed+1 {
		t.Errorf("the server is to tell of %d resources", n)
	}
	m.receive(scan(t, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:kept"}}`))
	if got := <-heard; got != "notifications/resources/updated" {
		t.Errorf("who listens hears %s", got)
	}
}

// While its client thinks about the server's question a server may have no time
// for another.
func TestServerWhoseClientIsAskedIsBusy(t *testing.T) {
	t.Parallel()
	m := newIdle(t)
	s, c := m.join()
	m.say(s, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`)
	<-m.server.input
	m.receive(scan(t, `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?"}}`))
	if got := m.heard(c); !strings.Contains(got, "input_required") {
		t.Fatalf("the client is answered %s", got)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.busy() {
		t.Error("the server is to answer pings")
	}
}
