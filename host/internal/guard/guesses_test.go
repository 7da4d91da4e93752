package guard

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Whoever guesses has to wait after a while, and nobody else: also who has a
// right token, and comes from the same address.
func TestWrongTokensAreBounded(t *testing.T) {
	f := serve(t, conf("127.0.0.1:0", tokenOf("alice", aliceToken, everything())), whoCalls)
	ask := func(token string) response {
		got, _ := f.ask("POST", "/mcp", strings.NewReader("{}"), "Authorization", "Bearer "+token)
		return got
	}
	for i := range guessBurst {
		if got := ask(fmt.Sprint("wrong", i)); got.StatusCode != 401 {
			t.Fatalf("the wrong token %d: status %d", i, got.StatusCode)
		}
		if got := ask(aliceToken); got.StatusCode != 200 {
			t.Fatalf("the right token after %d: status %d", i, got.StatusCode)
		}
	}
	got := ask("wrong again")
	if wait, err := strconv.Atoi(got.Header.Get("Retry-After")); got.StatusCode != 429 || err != nil || wait < 1 || wait > int(guessInterval.Seconds()) {
		t.Errorf("one more: status %d, %v", got.StatusCode, got.Header)
	}
	if got := ask(aliceToken); got.StatusCode != 200 {
		t.Errorf("the right token: status %d", got.StatusCode)
	}
	if got, _ := f.ask("POST", "/mcp", strings.NewReader("{}")); got.StatusCode != 401 {
		t.Errorf("no token, as clients ask at first: status %d", got.StatusCode)
	}
}

func TestGuessesAreCountedByNetworkAndForgotten(t *testing.T) {
	g, now := newGuesses(), time.Now()
	for range guessBurst {
		if wait := g.count("192.0.2.1:1", now); wait > 0 {
			t.Fatalf("within the burst the wait is %v", wait)
		}
		g.count("[2001:db8::1]:1", now)
	}
	for _, test := range []struct {
		from string
		at   time.Duration
		want bool
	}{
		{"192.0.2.1:2", 0, true},
		{"[::ffff:192.0.2.1]:3", 0, true},
		{"192.0.2.2:1", 0, false},
		{"[2001:db8::ffff]:1", 0, true},
		{"[2001:db8:0:1::1]:1", 0, false},
		{"192.0.2.1:2", guessInterval / 2, true},
		{"192.0.2.1:2", guessInterval, false},
		{"192.0.2.1:2", guessInterval, true},
		{"@", 0, false},
	} {
		if got := g.count(test.from, now.Add(test.at)); got > 0 != test.want || got > guessInterval {
			t.Errorf("from %s after %v the wait is %v, want one: %v", test.from, test.at, got, test.want)
		}
	}
}

func TestGuessersAreNotRememberedWithoutBound(t *testing.T) {
	g, now := newGuesses(), time.Now()
	from := func(i int) string { return fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255) }
	refused := 0
	for i := range 2 * maxGuessers {
		if g.count(from(i), now) > 0 {
			refused++
		}
	}
	if len(g.from) > maxGuessers+1 || refused == 0 {
		t.Errorf("%d are told apart, and %d of those beyond are refused", len(g.from), refused)
	}
	now = now.Add(guessBurst * guessInterval)
	if wait := g.count(from(2*maxGuessers), now); wait > 0 || len(g.from) != 1 {
		t.Errorf("when all is forgotten the wait is %v, and %d are told apart", wait, len(g.from))
	}
}
