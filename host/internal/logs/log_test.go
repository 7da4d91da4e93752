package logs

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func newPath(t *testing.T) string { return Path(t.TempDir(), "mcp.clock") }

func mustOpen(t *testing.T, path string) *Log {
	t.Helper()
	l, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func mustClose(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func entry(message string) Entry {
	return Entry{Time: time.Unix(1e9, 0).UTC(), Service: "mcp.clock", Stream: "stdout", Message: message}
}

// messages are all that is in a log.
func messages(t *testing.T, path string) []string {
	t.Helper()
	var all []string
	err := Read([]string{path}, Everything(), func(e Entry) error {
		all = append(all, e.Message)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func wantMessages(t *testing.T, path string, want ...string) {
	t.Helper()
	if got := messages(t, path); !slices.Equal(got, want) {
		t.Errorf("the log says %q, want %q", got, want)
	}
}

// wantLostAndAfter checks that a line was lost, and that the log says so.
func wantLostAndAfter(t *testing.T, path string) {
	t.Helper()
	got := messages(t, path)
	if len(got) != 2 || !strings.HasPrefix(got[0], "1 line before this one could not be logged: ") || got[1] != "after" {
		t.Errorf("the log says %q", got)
	}
}

func TestWhatIsAppendedIsRead(t *testing.T) {
	path := newPath(t)
	if filepath.Base(path) != "mcp.clock.jsonl" {
		t.Errorf("it is in %s", path)
	}
	want := Entry{
		Time: time.Unix(1e9, 123456789).UTC(), Service: "mcp.clock", Instance: "id", Stream: "stderr", Level: "warn", Message: "a\nb <c> \x00",
		Fields: fields{"n": json.Number("12345678901234567890123"), "deep": map[string]any{"a": []any{json.Number("1e400"), nil}}},
	}
	l := mustOpen(t, path)
	l.Append(want)
	var got []Entry
	err := Read([]string{path}, Everything(), func(e Entry) error {
		got = append(got, e)
		return nil
	})
	if err != nil || !reflect.DeepEqual(got, []Entry{want}) {
		t.Errorf("got %#v, %v\nwant %#v", got, err, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("%v, %v; want mode 0600", info.Mode(), err)
	}

	mustClose(t, l)
	l = mustOpen(t, path)
	l.Append(entry("more"))
	wantMessages(t, path, want.Message, "more")
}

func TestReadStopsWhenItIsTold(t *testing.T) {
	path := newPath(t)
	l := mustOpen(t, path)
	l.max = 200
	for i := range 3 {
		l.Append(entry(strconv.Itoa(i)))
	}
	var n int
	enough := errors.New("enough")
	err := Read([]string{path}, Everything(), func(Entry) error { n++; return enough })
	if !errors.Is(err, enough) || n != 1 {
		t.Errorf("%d entries, %v; want one", n, err)
	}
}

func TestALogThatIsNotThereIsEmpty(t *testing.T) { wantMessages(t, newPath(t)) }

func TestALogThatCannotBeReadIsAnError(t *testing.T) {
	path := newPath(t)
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Read([]string{path}, Everything(), nil); err == nil || !strings.Contains(err.Error(), "cannot read the log") {
		t.Errorf("the error is %v", err)
	}
	if _, err := Open(path, Options{}); err == nil || !strings.Contains(err.Error(), "cannot open the log") {
		t.Errorf("the error is %v", err)
	}
}

func TestRotationKeepsTheOrderAndTheBounds(t *testing.T) {
	path := newPath(t)
	l := mustOpen(t, path)
	l.max, l.maxFiles = 1000, 3
	var all []string
	for i := range 100 {
		message := strconv.Itoa(i)
		l.Append(entry(message))
		all = append(all, message)
		got := messages(t, path)
		if len(got) == 0 || !slices.Equal(got, all[len(all)-len(got):]) {
			t.Fatalf("after %s it says %q", message, got)
		}
	}
	for _, name := range []string{path, rotated(path, 1), rotated(path, 2)} {
		if info, err := os.Stat(name); err != nil || info.Size() > l.max || info.Size() < l.max/3 && name != path {
			t.Errorf("%s: %d bytes, %v", name, info.Size(), err)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 3 {
		t.Errorf("there are %v, %v; want three files", entries, err)
	}

	// One that is longer than a file is kept whole, too.
	long := strings.Repeat("x", 2000)
	l.Append(entry(long))
	l.Append(entry("next"))
	l.max = 10
	l.Append(entry("last"))
	wantMessages(t, path, long, "next", "last")
	mustClose(t, l)
}

func TestAReaderDuringARotationMissesNothing(t *testing.T) {
	// The newer file was opened, and is the older one before that is opened.
	path := newPath(t)
	l := mustOpen(t, path)
	l.Append(entry("one"))
	if err := os.Link(path, rotated(path, 1)); err != nil {
		t.Fatal(err)
	}
	wantMessages(t, path, "one")
}

func TestATornLineIsSkippedAndTakesNoOtherWithIt(t *testing.T) {
	path := newPath(t)
	l := mustOpen(t, path)
	l.Append(entry("one"))
	mustClose(t, l)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, torn := range []string{string(content[:len(content)/2]), "{", "null\n", "{}\n", "\n\n", "\x00\x00\x00"} {
		if err := os.WriteFile(path, append(slices.Clone(content), torn...), 0o600); err != nil {
			t.Fatal(err)
		}
		wantMessages(t, path, "one")
		l := mustOpen(t, path)
		l.Append(entry("two"))
		l.Append(entry("three"))
		mustClose(t, l)
		wantMessages(t, path, "one", "two", "three")
	}
}

func TestALogThatIsTakenAwayIsMadeAnew(t *testing.T) {
	t.Run("with its directory", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "logs")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		path := Path(dir, "mcp.clock")
		l := mustOpen(t, path)
		l.Append(entry("before"))
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		l.Append(entry("lost"))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		l.Append(entry("after"))
		wantLostAndAfter(t, path)
		if err := l.Close(); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("nobody is told that a line was lost: %v", err)
		}
	})
	t.Run("by a rotation of somebody else's", func(t *testing.T) {
		path := newPath(t)
		l := mustOpen(t, path)
		l.Append(entry("before"))
		if err := os.Rename(path, path+".old"); err != nil {
			t.Fatal(err)
		}
		l.Append(entry("after"))
		wantMessages(t, path, "after")
		wantMessages(t, path+".old", "before")
		mustClose(t, l)
	})
	t.Run("emptied", func(t *testing.T) {
		path := newPath(t)
		l := mustOpen(t, path)
		l.Append(entry("before"))
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
		l.Append(entry("after"))
		wantMessages(t, path, "after")
	})
}

func TestARotationThatFailsLosesOnlyWhileItDoes(t *testing.T) {
	path := newPath(t)
	l := mustOpen(t, path)
	l.max, l.maxFiles = 100, 2
	l.Append(entry("one"))
	if err := os.MkdirAll(filepath.Join(rotated(path, 1), "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	l.Append(entry("lost"))
	if err := os.RemoveAll(rotated(path, 1)); err != nil {
		t.Fatal(err)
	}
	l.max = 1000
	l.Append(entry("two"))
	if got := messages(t, path); len(got) != 3 || got[0] != "one" || !strings.HasPrefix(got[1], "1 line before this one could not be logged") || got[2] != "two" {
		t.Errorf("the log says %q", got)
	}
	if err := l.Close(); err == nil {
		t.Error("nobody is told that a line was lost")
	}
}

func TestAppendAfterCloseDoesNothing(t *testing.T) {
	path := newPath(t)
	l := mustOpen(t, path)
	l.Append(entry("one"))
	mustClose(t, l)
	l.Append(entry("late"))
	wantMessages(t, path, "one")
	mustClose(t, l)
}

func TestAFullDiskLosesLinesAndNothingElse(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no /dev/full")
	}
	path := newPath(t)
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	l := mustOpen(t, path)
	l.Append(entry("lost"))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	l.Append(entry("after"))
	wantLostAndAfter(t, path)
	if counts := l.Counts(); counts.Lost != 1 || counts.Lines != 2 {
		t.Errorf("it counts %+v", counts)
	}
	if err := l.Close(); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("the error is %v", err)
	}
}

func TestManyWritersGiveWholeLines(t *testing.T) {
	path := newPath(t)
	l := mustOpen(t, path)
	l.max = 100_000
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := range 50 {
				l.Append(entry(fmt.Sprintf("%d %d %s", w, i, strings.Repeat("x", 100))))
			}
		})
	}
	writers.Go(func() {
		for range 20 {
			if err := Read([]string{path}, Everything(), func(Entry) error { return nil }); err != nil {
				t.Error(err)
			}
		}
	})
	writers.Wait()
	mustClose(t, l)
	next := make(map[string]int)
	for _, message := range messages(t, path) {
		parts := strings.Fields(message)
		i, err := strconv.Atoi(parts[1])
		if err != nil || i != next[parts[0]] {
			t.Fatalf("%s: %q comes where %d was due", parts[0], parts[1], next[parts[0]])
		}
		next[parts[0]]++
	}
	for w, n := range next {
		if n != 50 {
			t.Errorf("writer %s: %d lines", w, n)
		}
	}
	if len(next) != 8 {
		t.Errorf("%d writers wrote", len(next))
	}
}
