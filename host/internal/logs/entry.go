// Package logs keeps what services write: one file per service, a JSON object
// a line, rotated by size.
package logs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Entry is one line of a service's log.
type Entry struct {
	Time     time.Time `json:"time"`
	Service  string    `json:"service"`
	Instance string    `json:"instance,omitempty"`
	// Stream is where the line came from: stdout, stderr, or host for what
	// the host has to say of the service.
	Stream string `json:"stream"`
	// Level is trace, debug, info, warn or error; empty if the line says none.
	Level   string `json:"level,omitempty"`
	Message string `json:"message"`
	// Fields are the further members of a structured line.
	Fields map[string]any `json:"fields,omitempty"`
}

// Parse takes a line of a plugin apart: a JSON object as hclog and slog write
// them, or text with a level in brackets before it. Every other line is kept
// whole as the message.
func Parse(line []byte) (level, message string, fields map[string]any) {
	if level, message, fields, ok := parseJSON(line); ok {
		return level, message, fields
	}
	text := strings.ToValidUTF8(string(line), string(utf8.RuneError))
	for _, level := range levels {
		if prefix := "[" + strings.ToUpper(level) + "]"; strings.HasPrefix(text, prefix) {
			return level, strings.TrimSpace(text[len(prefix):]), nil
		}
	}
	return "", text, nil
}

var levels = []string{"trace", "debug", "info", "warn", "error"}

// parseJSON accepts only lines whose members have the types that the loggers
// give them: go-plugin's own parser panics on others.
func parseJSON(line []byte) (level, message string, fields map[string]any, ok bool) {
	if trimmed := bytes.TrimSpace(line); len(trimmed) == 0 || trimmed[0] != '{' {
		return "", "", nil, false
	}
	// In an array, so that it is as deep as in the log: what is too deep for a
	// decoder there could not be read again.
	decoder := json.NewDecoder(io.MultiReader(strings.NewReader("["), bytes.NewReader(line), strings.NewReader("]")))
	decoder.UseNumber()
	var objects []map[string]any
	if err := decoder.Decode(&objects); err != nil || len(objects) != 1 {
		return "", "", nil, false
	}
	fields = objects[0]
	if _, err := decoder.Token(); err != io.EOF {
		return "", "", nil, false // more follows the object
	}
	message, ok = take(fields, anything, "@message", "msg")
	if !ok {
		return "", "", nil, false
	}
	level, _ = take(fields, isLevel, "@level", "level")
	level = strings.ToLower(level)
	_, _ = take(fields, isTime, "@timestamp", "time") // the entry has its own
	if len(fields) == 0 {
		fields = nil
	}
	return level, message, fields, true
}

// take removes and returns the first of the named members that is a string of
// the kind wanted. One that is not means something else, and stays a field.
func take(fields map[string]any, wanted func(string) bool, names ...string) (string, bool) {
	for _, name := range names {
		if value, ok := fields[name].(string); ok && wanted(value) {
			delete(fields, name)
			return value, true
		}
	}
	return "", false
}

func anything(string) bool { return true }

func isLevel(text string) bool { return slices.Contains(levels, strings.ToLower(text)) }

func isTime(text string) bool {
	_, err := time.Parse(time.RFC3339, text)
	return err == nil
}

// Format writes an entry as one line for people. Its service comes first, as
// wide as the widest of those that are shown, in a colour of its own unless
// color is zero: an SGR parameter such as 36 for cyan. Control characters,
// which could steer a terminal, and those that change the direction of what is
// written around them are shown escaped.
func (e Entry) Format(width, color int) string {
	var b strings.Builder
	prefix := fmt.Sprintf("%-*s |", width, Printable(e.Service))
	if color != 0 {
		prefix = fmt.Sprintf("\x1b[%dm%s\x1b[0m", color, prefix)
	}
	fmt.Fprintf(&b, "%s %s %-5s ", prefix, e.Time.Local().Format("2006-01-02 15:04:05.000"), Printable(strings.ToUpper(e.Level)))
	if e.Stream == StreamHost {
		b.WriteString("(host) ")
	}
	b.WriteString(Printable(e.Message))
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		fmt.Fprintf(&b, " %s=%s", Printable(name), Printable(fieldText(e.Fields[name])))
	}
	return b.String()
}

func fieldText(value any) string {
	if text, ok := value.(string); ok && !strings.ContainsAny(text, " \t\"") {
		return text
	}
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false) // people read it
	if err := encoder.Encode(value); err != nil {
		return fmt.Sprint(value)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Printable is text, of whatever origin, without what could steer a terminal:
// that is shown escaped.
func Printable(text string) string {
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	if !strings.ContainsFunc(text, steers) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case !steers(r):
			b.WriteRune(r)
		case r <= 0xff:
			fmt.Fprintf(&b, "\\x%02x", r)
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// steers reports whether a terminal does not just show r: control characters,
// further ends of lines and marks of the direction of writing.
func steers(r rune) bool {
	return r != '\t' && unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
}

func parseEntry(line []byte) (entry Entry, ok bool) {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber() // fields stay as they were written
	if decoder.Decode(&entry) != nil {
		return Entry{}, false
	}
	_, err := decoder.Token()
	return entry, err == io.EOF && !entry.Time.IsZero()
}
