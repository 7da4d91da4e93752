package stdio

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func TestEvents(t *testing.T) {
	for stream, want := range map[string][]string{
		"":                               nil,
		"data: a\n\n":                    {"a"},
		"data:a\r\n\r\ndata:  b\r\n\r\n": {"a", " b"},
		"event: message\nid: 1\nretry: 5\ndata: a\ndata: b\n\n": {"a\nb"},
		": still there\n\ndata: a\n\n":                          {"a"},
		"id: 1\ndata:\n\n":                                      nil,
		"data: a\n\ndata: cut off":                              {"a"},
		"data: " + strings.Repeat("x", 1<<20) + "\n\n":          {strings.Repeat("x", 1<<20)},
	} {
		var got []string
		err := events(strings.NewReader(stream), func(data []byte) { got = append(got, string(data)) })
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%.40q: %.80q, %v; want %.80q", stream, got, err, want)
		}
	}
}

// Whatever comes in one piece or in many, the same events are read from it.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("event: message\ndata: {\"a\":1}\n\n"))
	f.Add([]byte(": x\r\n\r\ndata:a\ndata: b\r\n\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		var all [][]byte
		if err := events(bytes.NewReader(stream), func(data []byte) { all = append(all, data) }); err != nil {
			t.Fatal(err)
		}
		for _, data := range all {
			if len(data) == 0 {
				t.Errorf("an event is %q", data)
			}
		}
		var again [][]byte
		if err := events(iotest.OneByteReader(bytes.NewReader(stream)), func(data []byte) { again = append(again, data) }); err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(all, again, bytes.Equal) {
			t.Errorf("in one piece %q, in many %q", all, again)
		}
	})
}
