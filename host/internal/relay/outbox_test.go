package relay

import "testing"

// A client that does not read loses what is too much, but not that a list has
// changed.
func TestFloodDoesNotDropThatAListHasChanged(t *testing.T) {
	var o outbox
	o.init()
	for range 2 * maxWaiting {
		o.offer(item{head: []byte("{}")})
	}
	for range 2 {
		o.insist(item{head: listChanged("tools")})
	}
	waiting := o.take().items
	if len(waiting) != maxWaiting+1 || string(waiting[maxWaiting].head) != string(listChanged("tools")) {
		t.Errorf("%d messages wait, and at last %.100s", len(waiting), waiting[len(waiting)-1].head)
	}
}
