package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// second is a time that stands for a number.
func second(n int) time.Time { return time.Unix(1e9+int64(n), 0).UTC() }

// read are the messages that a query gives.
func read(t *testing.T, query Query, paths ...string) []string {
	t.Helper()
	all := []string{}
	err := Read(paths, query, func(e Entry) error {
		all = append(all, e.Message)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// numbered makes logs of so many services in dir: service s has the entries n
// from 0 on for which n % services is s, one a second and over several files.
func numbered(t *testing.T, services, entries int) (paths []string) {
	t.Helper()
	dir := t.TempDir()
	for s := range services {
		path := Path(dir, fmt.Sprintf("mcp.s%d", s))
		l := mustOpen(t, path)
		l.max, l.maxFiles = 2000, 100
		for n := s; n < entries; n += services {
			e := entry(fmt.Sprint(n))
			e.Time = second(n)
			l.Append(e)
		}
		mustClose(t, l)
		paths = append(paths, path)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) < 4*services {
		t.Fatalf("there are only %d files, %v", len(files), err)
	}
	return paths
}

func TestQueries(t *testing.T) {
	const entries = 300
	paths := numbered(t, 3, entries)
	tests := []struct {
		name        string
		query       Query
		first, last int // of the messages; last is exclusive
	}{
		{"everything", Everything(), 0, entries},
		{"since before the first", Query{Since: second(-100), Tail: -1}, 0, entries},
		{"since the first", Query{Since: second(0), Tail: -1}, 0, entries},
		{"since one in an older file", Query{Since: second(50), Tail: -1}, 50, entries},
		{"since one in the newest file", Query{Since: second(entries - 2), Tail: -1}, entries - 2, entries},
		{"since between two", Query{Since: second(149).Add(1), Tail: -1}, 150, entries},
		{"since after the last", Query{Since: second(entries), Tail: -1}, 0, 0},
		{"no lines", Query{Tail: 0}, 0, 0},
		{"the last line", Query{Tail: 1}, entries - 1, entries},
		{"a tail over several files", Query{Tail: 200}, entries - 200, entries},
		{"a tail longer than the log", Query{Tail: 10 * entries}, 0, entries},
		{"a tail that since cuts", Query{Since: second(entries - 5), Tail: 10}, entries - 5, entries},
		{"a tail that is shorter than since", Query{Since: second(10), Tail: 7}, entries - 7, entries},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			want := []string{}
			for n := test.first; n < test.last; n++ {
				want = append(want, fmt.Sprint(n))
			}
			if got := read(t, test.query, paths...); !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

// Entries that were written in another order than that of their time are given
// in that of their writing, and none is left out.
func TestEntriesOutOfOrder(t *testing.T) {
	path := newPath(t)
	l := mustOpen(t, path)
	l.max = 1 // a file for each
	for i, at := range []int{500, 400, 900, 0, 800} {
		e := entry(fmt.Sprint(i))
		e.Time = second(0).Add(time.Duration(at) * time.Millisecond)
		l.Append(e)
	}
	if got, want := read(t, Everything(), path), []string{"0", "1", "2", "3", "4"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	query := Query{Since: second(0).Add(600 * time.Millisecond), Tail: -1}
	for _, tail := range []int{-1, 5} {
		query.Tail = tail
		if got, want := read(t, query, path), []string{"2", "4"}; !slices.Equal(got, want) {
			t.Errorf("tail %d: got %q, want %q", tail, got, want)
		}
	}
}

func TestATailSkipsWhatIsNoEntry(t *testing.T) {
	path := newPath(t)
	l := mustOpen(t, path)
	long := strings.Repeat("x", 3*chunk)
	for _, message := range []string{"one", long, "two"} {
		l.Append(entry(message))
	}
	mustClose(t, l)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, torn := range []string{"", "{", "null\n\n\n{}\n", strings.Repeat("\x00", 2*chunk)} {
		if err := os.WriteFile(path, append(slices.Clone(content), torn...), 0o600); err != nil {
			t.Fatal(err)
		}
		for tail, want := range [][]string{{}, {"two"}, {long, "two"}, {"one", long, "two"}, {"one", long, "two"}} {
			if got := read(t, Query{Tail: tail}, path); !slices.Equal(got, want) {
				t.Errorf("after %.10q a tail of %d has %d entries, want %d", torn, tail, len(got), len(want))
			}
		}
	}
}

func TestFilesBeyondTheLimitAreRemoved(t *testing.T) {
	path := newPath(t)
	l := mustOpen(t, path)
	l.max = 1
	for n := range 5 {
		l.Append(entry(fmt.Sprint(n)))
	}
	mustClose(t, l)
	others := []string{path + ".x", path + ".03", filepath.Join(filepath.Dir(path), "mcp.clock2.jsonl.3")}
	for _, other := range others {
		if err := os.WriteFile(other, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := Open(path, Options{MaxFiles: 2})
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	wantMessages(t, path, "3", "4")
	for _, other := range others {
		if _, err := os.Stat(other); err != nil {
			t.Errorf("what is no file of the log is gone: %v", err)
		}
	}

	if l, err = Open(path, Options{MaxFiles: 1, MaxSize: 1}); err != nil {
		t.Fatal(err)
	}
	l.Append(entry("5"))
	wantMessages(t, path, "5")
	l.Append(entry("6"))
	wantMessages(t, path, "6")
	mustClose(t, l)
}

// A rotation that ended half way leaves a gap, which the next one fills.
func TestARotationThatEndedHalfWayGoesOn(t *testing.T) {
	path := newPath(t)
	l := mustOpen(t, path)
	l.max, l.maxFiles = 1, 4
	for n := range 4 {
		l.Append(entry(fmt.Sprint(n)))
	}
	if err := os.Rename(rotated(path, 2), rotated(path, 3)); err != nil { // 0 is gone
		t.Fatal(err)
	}
	wantMessages(t, path, "1", "2", "3")
	l.Append(entry("4"))
	wantMessages(t, path, "1", "2", "3", "4")
	l.Append(entry("5"))
	wantMessages(t, path, "2", "3", "4", "5")
}
