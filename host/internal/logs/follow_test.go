package logs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// follow starts to follow logs. What it saw is taken from the channel; the
// channel is closed at the end, of which the error is left.
func follow(ctx context.Context, t *testing.T, query Query, logs ...*Log) (seen chan []Entry, ended *error) {
	t.Helper()
	seen, ended = make(chan []Entry), new(error)
	go func() {
		defer close(seen)
		*ended = Follow(ctx, logs, query, func(entries []Entry) error {
			seen <- entries
			return nil
		})
	}()
	return seen, ended
}

// until takes what is seen up to the message last.
func until(t *testing.T, seen <-chan []Entry, last string) []string {
	t.Helper()
	var got []string
	for entries := range seen {
		for _, e := range entries {
			got = append(got, e.Message)
		}
		if got[len(got)-1] == last {
			return got
		}
	}
	t.Fatalf("it ended before %q came: %q", last, got)
	return nil
}

func numbers(from, to int) []string {
	var all []string
	for n := from; n < to; n++ {
		all = append(all, strconv.Itoa(n))
	}
	return all
}

func TestAFollowerSeesWhatWasAndWhatComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := mustOpen(t, newPath(t)), mustOpen(t, newPath(t))
		for n := range 4 {
			e := entry(strconv.Itoa(n))
			e.Time = second(n)
			[]*Log{a, b}[n%2].Append(e)
		}
		seen, ended := follow(t.Context(), t, Query{Tail: 3}, a, b)
		if got := until(t, seen, "3"); !slices.Equal(got, numbers(1, 4)) {
			t.Errorf("of what was it sees %q", got)
		}
		for n := 4; n < 8; n++ {
			e := entry(strconv.Itoa(n))
			e.Time = second(n)
			[]*Log{a, b}[n%2].Append(e)
			if got := until(t, seen, strconv.Itoa(n)); len(got) != 1 {
				t.Errorf("of what comes it sees %q", got)
			}
		}

		// The end comes when all have ended, and after the last words.
		a.Append(entry("last words"))
		mustClose(t, a)
		if got := until(t, seen, "last words"); len(got) != 1 {
			t.Errorf("at the end it sees %q", got)
		}
		synctest.Wait()
		b.Append(entry("last of the other"))
		b.EndFollowing()
		until(t, seen, "last of the other")
		if _, more := <-seen; more || *ended != nil {
			t.Errorf("it ends with %v, or not at all", *ended)
		}
	})
}

func TestAFollowerMissesNothingOverRotations(t *testing.T) {
	const entries = 2000
	l := mustOpen(t, newPath(t))
	l.max, l.maxFiles = 2000, 1000
	var writer sync.WaitGroup
	started := make(chan struct{})
	writer.Go(func() {
		for n := range entries {
			l.Append(entry(strconv.Itoa(n)))
			if n == entries/10 {
				close(started)
			}
		}
	})
	<-started // some come in as it begins
	for range 3 {
		seen, _ := follow(t.Context(), t, Everything(), l)
		if got := until(t, seen, strconv.Itoa(entries-1)); !slices.Equal(got, numbers(0, entries)) {
			t.Errorf("it sees %d entries, some missing, twice or in disorder", len(got))
		}
	}
	writer.Wait()
	if l.number < 50 {
		t.Errorf("there were only %d rotations", l.number)
	}
}

// A follower that does not take what it asked for is no burden, and is told
// how much it missed.
func TestASlowFollowerIsToldWhatItMissed(t *testing.T) {
	synctest.Test(t, slowFollower)
}

func slowFollower(t *testing.T) {
	const entries = 1000
	l := mustOpen(t, newPath(t))
	l.max, l.maxFiles = 1000, 3
	l.Append(entry("0"))
	seen, _ := follow(t.Context(), t, Everything(), l)
	synctest.Wait()
	for n := 1; n < entries; n++ {
		l.Append(entry(strconv.Itoa(n))) // nobody takes anything meanwhile
	}
	got := until(t, seen, strconv.Itoa(entries-1))
	told := slices.IndexFunc(got, func(m string) bool { return strings.HasSuffix(m, "were removed before they were read") })
	if told < 0 {
		t.Fatalf("nobody says that something is missing: %q", got)
	}
	lost, err := strconv.Atoi(strings.Fields(got[told])[0])
	if err != nil || lost < entries/2 {
		t.Errorf("it is told %q", got[told])
	}
	if want := slices.Concat(numbers(0, told), []string{got[told]}, numbers(told+lost, entries)); !slices.Equal(got, want) {
		t.Errorf("it sees %q, and was told that %d are missing", got, lost)
	}
}

func TestAFollowerOfALogThatIsTakenAway(t *testing.T) {
	for name, take := range map[string]func(path string) error{
		"removed":  os.Remove,
		"moved":    func(path string) error { return os.Rename(path, path+".old") },
		"emptied":  func(path string) error { return os.Truncate(path, 0) },
		"replaced": func(path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			l := mustOpen(t, path)
			l.Append(entry("before"))
			seen, _ := follow(t.Context(), t, Everything(), l)
			until(t, seen, "before")
			if err := take(path); err != nil {
				t.Fatal(err)
			}
			l.Append(entry("after"))
			if got := until(t, seen, "after"); len(got) != 1 {
				t.Errorf("it sees %q", got)
			}
			l.Append(entry("later"))
			until(t, seen, "later")
		})
	}
}

func TestFollowEndsWithItsContextOrItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mustOpen(t, newPath(t))
		l.Append(entry("one"))
		ctx, cancel := context.WithCancel(t.Context())
		seen, ended := follow(ctx, t, Everything(), l)
		until(t, seen, "one")
		synctest.Wait()
		cancel()
		if _, more := <-seen; more || !errors.Is(*ended, context.Canceled) {
			t.Errorf("it ends with %v", *ended)
		}
		gone := errors.New("gone")
		if err := Follow(t.Context(), []*Log{l}, Everything(), func([]Entry) error { return gone }); !errors.Is(err, gone) {
			t.Errorf("it ends with %v, want the error of its reader", err)
		}
		if len(l.followers) != 0 {
			t.Errorf("%d followers are left", len(l.followers))
		}
	})
}

// Entries of a burst in several logs are in the order of their time.
func TestABurstIsMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := mustOpen(t, newPath(t)), mustOpen(t, newPath(t))
		proceed := make(chan struct{})
		var got []string
		done := make(chan error)
		a.Append(entry("first"))
		go func() {
			done <- Follow(t.Context(), []*Log{a, b}, Everything(), func(entries []Entry) error {
				for _, e := range entries {
					got = append(got, e.Message)
				}
				<-proceed
				return nil
			})
		}()
		synctest.Wait()
		for n := range 10 {
			e := entry(fmt.Sprint(n))
			e.Time = second(n).Add(time.Hour)
			[]*Log{b, a}[n%2].Append(e)
		}
		a.EndFollowing()
		b.EndFollowing()
		close(proceed)
		if err := <-done; err != nil || !slices.Equal(got[1:], numbers(0, 10)) {
			t.Errorf("%v; the order is %q", err, got)
		}
	})
}
