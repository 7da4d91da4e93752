package relay

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/plughost/plughost/host/internal/caller"
)

func newOutbox() *outbox {
	o := &outbox{}
	o.init()
	return o
}

func toolsChanged() item { return item{head: listChanged("tools"), list: "tools"} }

// flood fills an outbox.
func (o *outbox) flood() {
	for range 2 * maxWaiting {
		o.offer(item{head: []byte("{}")})
	}
}

// A client that does not read loses what is too much, but not that a list has
// changed.
func TestFloodDoesNotDropThatAListHasChanged(t *testing.T) {
	o := newOutbox()
	o.flood()
	for range 2 {
		o.offer(toolsChanged())
	}
	waiting := o.take().items
	if len(waiting) != maxWaiting+1 || string(waiting[maxWaiting].head) != string(listChanged("tools")) {
		t.Errorf("%d messages wait, and at last %.100s", len(waiting), waiting[len(waiting)-1].head)
	}
}

// Streams that break again and again do not have more and more wait.
func TestWhatIsPutBackIsBounded(t *testing.T) {
	o := newOutbox()
	for range 3 {
		o.flood()
		o.offer(toolsChanged())
		o.putBack(o.take().items)
		taken := o.take().items
		o.flood()
		o.offer(toolsChanged())
		o.putBack(taken)
	}
	o.close(item{head: []byte("answer")})
	o.putBack([]item{{head: []byte("first")}})
	waiting := o.take()
	var changes int
	for _, i := range waiting.items {
		if i.list != "" {
			changes++
		}
	}
	n := len(waiting.items)
	if n > maxWaiting+2 || changes != 1 || string(waiting.items[0].head) != "first" || string(waiting.items[n-1].head) != "answer" || !waiting.last {
		t.Errorf("%d messages wait, %d of changes, from %s to %s", n, changes, waiting.items[0].head, waiting.items[n-1].head)
	}
}

// What comes when a stream ends waits for the next one.
func TestMessageForAStreamThatHasEndedStays(t *testing.T) {
	for range 100 { // the two come in any order
		o, ctx := newOutbox(), endedContext()
		o.offer(item{head: []byte("{}")})
		w := httptest.NewRecorder()
		newEvents(w).pump(ctx, o, taken{})
		select {
		case <-o.wake:
		default:
			t.Fatal("the next stream does not hear of it")
		}
		if got := o.take().items; len(got) != 1 || strings.Contains(w.Body.String(), "{}") {
			t.Fatalf("%d messages wait, and the stream has %q", len(got), w.Body)
		}
	}
}

// A client that does not listen hears with its next call that lists have changed,
// whatever else waits, and with the one after that if it has left before.
func TestChangedListReachesAClientThatLeavesItsCalls(t *testing.T) {
	s := newSession(newRelay(Options{}), "", caller.Caller{})
	s.outbox.flood()
	s.outbox.offer(toolsChanged())
	for n := range 3 {
		c := newCallNamed(fmt.Sprint(n))
		s.tellWith(c)
		last := c.out.items[len(c.out.items)-1]
		if string(last.head) != string(listChanged("tools")) {
			t.Fatalf("call %d gets %s at last", n, last.head)
		}
		s.left(c)
		if c.out.offer(item{head: []byte("{}")}) || len(c.out.items) > 0 {
			t.Error("something waits for a client that has left")
		}
	}
}
