package logs

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"
)

type fields = map[string]any

func TestParse(t *testing.T) {
	tests := []struct {
		name    string
		line    string
		level   string
		message string
		fields  fields
	}{
		{"an empty line", "", "", "", nil},
		{"spaces", "  ", "", "  ", nil},
		{"text", "listening on :8080", "", "listening on :8080", nil},
		{"a level in brackets", "[WARN] disk is almost full", "warn", "disk is almost full", nil},
		{"a level in brackets, padded", "[INFO]  hello ", "info", "hello", nil},
		{"every level", "[TRACE] x", "trace", "x", nil},
		{"a level alone", "[ERROR]", "error", "", nil},
		{"another word in brackets", "[main] hello", "", "[main] hello", nil},
		{"a level that is not in front", "now [WARN] x", "", "now [WARN] x", nil},
		{"a level in small letters", "[warn] x", "", "[warn] x", nil},
		{"invalid UTF-8", "a\xff\xfeb", "", "a\uFFFDb", nil},
		{"invalid UTF-8 after a level", "[INFO] \xff", "info", "\uFFFD", nil},

		{
			"hclog", `{"@level":"info","@message":"hello","@module":"clock","@timestamp":"2024-01-02T15:04:05.000000Z","n":1}`,
			"info", "hello",
			fields{"@module": "clock", "n": json.Number("1")},
		},
		{
			"slog", `{"time":"2024-01-02T15:04:05.123456789+01:00","level":"ERROR","msg":"no","err":"EOF"}`,
			"error", "no",
			fields{"err": "EOF"},
		},
		{"nothing but a message", `{"msg":"hello"}`, "", "hello", nil},
		{"an empty message", `{"msg":"","a":true}`, "", "", fields{"a": true}},
		{"spaces around it", " \t{\"msg\":\"hello\"} ", "", "hello", nil},
		{
			"nested fields", `{"msg":"m","a":{"b":[1,{"c":null}]}}`, "", "m",
			fields{"a": map[string]any{"b": []any{json.Number("1"), map[string]any{"c": nil}}}},
		},
		{
			"huge numbers stay exact", `{"msg":"m","n":12345678901234567890123,"f":1e400}`, "", "m",
			fields{"n": json.Number("12345678901234567890123"), "f": json.Number("1e400")},
		},
		{"invalid UTF-8 in it", "{\"msg\":\"a\xffb\"}", "", "a\uFFFDb", nil},
		{"escapes", `{"msg":"a\u001b[31m\nb"}`, "", "a\x1b[31m\nb", nil},

		{"a message that is a number", `{"@message":1}`, "", `{"@message":1}`, nil},
		{"a message that is null", `{"msg":null}`, "", `{"msg":null}`, nil},
		{"a message that is no string, and another", `{"@message":1,"msg":"m"}`, "", "m", fields{"@message": json.Number("1")}},
		{"a level that is a number", `{"msg":"m","level":4}`, "", "m", fields{"level": json.Number("4")}},
		{"a level of its own stays", `{"msg":"m","level":"notice"}`, "", "m", fields{"level": "notice"}},
		{"a time that is none stays", `{"msg":"m","time":12.5}`, "", "m", fields{"time": json.Number("12.5")}},
		{"a time that is a word stays", `{"msg":"m","time":"12ms"}`, "", "m", fields{"time": "12ms"}},
		{"no message", `{"level":"info","text":"m"}`, "", `{"level":"info","text":"m"}`, nil},
		{"an array", `[{"msg":"m"}]`, "", `[{"msg":"m"}]`, nil},
		{"more after it", `{"msg":"m"} and more`, "", `{"msg":"m"} and more`, nil},
		{"a brace too many", `{"msg":"m"}}`, "", `{"msg":"m"}}`, nil},
		{"two of them", `{"msg":"a"}{"msg":"b"}`, "", `{"msg":"a"}{"msg":"b"}`, nil},
		{"a list of them", `{"msg":"a"},{"msg":"b"}`, "", `{"msg":"a"},{"msg":"b"}`, nil},
		{"an end too many", `{"msg":"m"}]`, "", `{"msg":"m"}]`, nil},
		{"cut off", `{"msg":"m"`, "", `{"msg":"m"`, nil},
		{"not quite", `{msg:"m"}`, "", `{msg:"m"}`, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			level, message, got := Parse([]byte(test.line))
			if level != test.level || message != test.message || !reflect.DeepEqual(got, test.fields) {
				t.Errorf("got level %q, message %q, fields %#v\nwant      %q,         %q,        %#v",
					level, message, got, test.level, test.message, test.fields)
			}
		})
	}
}

func TestWhatIsNestedTooDeeplyIsNotLost(t *testing.T) {
	for depth := 9_990; depth <= 10_010; depth++ {
		line := `{"msg":"m","a":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "}"
		level, message, fields := Parse([]byte(line))
		written, err := json.Marshal(Entry{Time: time.Unix(1e9, 0), Level: level, Message: message, Fields: fields})
		if err != nil {
			t.Fatal(err)
		}
		if read, ok := parseEntry(written); !ok || read.Message != "m" && read.Message != line {
			t.Errorf("depth %d: it is read back as %q", depth, read.Message)
		}
	}
}

func TestParseUnderstandsTheLoggersThemselves(t *testing.T) {
	var out bytes.Buffer
	hclog.New(&hclog.LoggerOptions{Output: &out, JSONFormat: true, Level: hclog.Trace, Name: "clock"}).Warn("tick", "n", 7)
	level, message, got := Parse(out.Bytes())
	if level != "warn" || message != "tick" || !reflect.DeepEqual(got, fields{"@module": "clock", "n": json.Number("7")}) {
		t.Errorf("hclog: %q %q %v", level, message, got)
	}
	out.Reset()
	slog.New(slog.NewJSONHandler(&out, nil)).Info("tick", slog.Group("g", "n", 7))
	level, message, got = Parse(out.Bytes())
	if level != "info" || message != "tick" || !reflect.DeepEqual(got, fields{"g": map[string]any{"n": json.Number("7")}}) {
		t.Errorf("slog: %q %q %v", level, message, got)
	}
}

func TestFormat(t *testing.T) {
	at := time.Date(2024, 1, 2, 15, 4, 5, 67e6, time.Local)
	tests := []struct {
		name  string
		entry Entry
		want  string
	}{
		{
			"text",
			Entry{Time: at, Service: "mcp.clock", Stream: "stderr", Message: "hello"},
			"mcp.clock | 2024-01-02 15:04:05.067       hello",
		},
		{
			"the host's",
			Entry{Time: at, Service: "mcp.clock", Stream: StreamHost, Level: "info", Message: "ready"},
			"mcp.clock | 2024-01-02 15:04:05.067 INFO  (host) ready",
		},
		{"fields, in order", Entry{Time: at, Service: "a", Level: "error", Message: "m", Fields: fields{
			"z": json.Number("1.50"), "b": "two words", "a": "one", "c": []any{"x", json.Number("1")}, "q": `"`, "empty": nil,
		}}, `a | 2024-01-02 15:04:05.067 ERROR m a=one b="two words" c=["x",1] empty=null q="\"" z=1.50`},
		{
			"no escapes for a browser",
			Entry{Time: at, Service: "a", Message: "<m>", Fields: fields{"f": "a <b> & c"}},
			`a | 2024-01-02 15:04:05.067       <m> f="a <b> & c"`,
		},
		{"control characters", Entry{Time: at, Service: "a\x1b", Level: "\x07", Message: "a\x1b[2J\nb\rc\x00\x7f\u009b\td", Fields: fields{
			"k\n": "v\x1b", "s": "x \x1b y",
		}}, `a\x1b | 2024-01-02 15:04:05.067 \x07  a\x1b[2J\x0ab\x0dc\x00\x7f\x9b` + "\td" + ` k\x0a=v\x1b s="x \u001b y"`},
		{
			"ends of lines and directions of Unicode",
			Entry{Time: at, Service: "a", Message: "a\u2028b\u202ec"},
			`a | 2024-01-02 15:04:05.067       a\u2028b\u202ec`,
		},
		{
			"bytes that are no text",
			Entry{Time: at, Service: "a", Message: "a\x9b31mb"},
			"a | 2024-01-02 15:04:05.067       a\uFFFD31mb",
		},
		{
			"other scripts",
			Entry{Time: at, Service: "a", Message: "grüße 世界 👩‍💻"},
			"a | 2024-01-02 15:04:05.067       grüße 世界 👩‍💻",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := test.entry.Format(0, 0); got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, line := range []string{
		"", "text", "[WARN] x", "[ERROR]", `{"@message":1}`, `{"@message":"m","@level":"info"}`, `{"msg":"m","n":1e400,"a":[{}]}`,
		"\xff", `{"msg":"\ud800"}`, `{"msg":"m"}}`, `{"time":"2024-01-02T15:04:05Z","msg":""}`, "{\"msg\":\"a\\nb\x1b\"}", `{"msg":"m","":{}}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		level, message, fields := Parse(line)
		if !utf8.ValidString(message) {
			t.Errorf("the message %q is no text", message)
		}
		if level != "" && !isLevel(level) {
			t.Errorf("the level is %q", level)
		}
		if level == "" && fields == nil && message == "" && utf8.Valid(line) && len(bytes.TrimSpace(line)) > 0 && !json.Valid(line) {
			t.Errorf("all of %q is lost", line)
		}
		entry := Entry{Time: time.Unix(1e9, 0).UTC(), Service: "mcp.a", Stream: "stdout", Level: level, Message: message, Fields: fields}
		if text := entry.Format(0, 0); strings.ContainsFunc(text, func(r rune) bool { return r != '\t' && unicode.IsControl(r) }) || !utf8.ValidString(text) {
			t.Errorf("the line for people is %q", text)
		}
		// What is written is one line, and is read as it was.
		written, err := json.Marshal(entry)
		if err != nil || bytes.ContainsRune(written, '\n') {
			t.Fatalf("it is written as %q, %v", written, err)
		}
		if read, ok := parseEntry(written); !ok || !reflect.DeepEqual(read, entry) {
			t.Errorf("it was\n%#v\nand is read as\n%#v", entry, read)
		}
	})
}
