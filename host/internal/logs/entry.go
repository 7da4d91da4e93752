// Package logs keeps what services write: one file per service, a JSON object
// a line, rotated by size.
package logs

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil || decoder.More() {
		return "", "", nil, false
	}
	message, ok = take(fields, "@message", "msg")
	if !ok {
		return "", "", nil, false
	}
	level, _ = take(fields, "@level", "level")
	level = strings.ToLower(level)
	if !slices.Contains(levels, level) {
		level = ""
	}
	for _, name := range []string{"@timestamp", "time"} {
		delete(fields, name)
	}
	if len(fields) == 0 {
		fields = nil
	}
	return level, message, fields, true
}

// take removes and returns the first of the named members that is a string.
func take(fields map[string]any, names ...string) (string, bool) {
	for _, name := range names {
		if value, ok := fields[name].(string); ok {
			delete(fields, name)
			return value, true
		}
	}
	return "", false
}

// Format writes an entry as one line for people. Control characters, which
// could steer a terminal, are shown escaped.
func (e Entry) Format() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %-5s %s", e.Time.Local().Format("2006-01-02 15:04:05.000"), strings.ToUpper(e.Level), e.Service)
	if e.Stream == StreamHost {
		b.WriteString(" (host)")
	}
	b.WriteString(": ")
	b.WriteString(printable(e.Message))
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		fmt.Fprintf(&b, " %s=%s", printable(name), printable(fieldText(e.Fields[name])))
	}
	return b.String()
}

func fieldText(value any) string {
	if text, ok := value.(string); ok && !strings.ContainsAny(text, " \t\"") {
		return text
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(encoded)
}

func printable(text string) string {
	if !strings.ContainsFunc(text, isControl) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if isControl(r) {
			fmt.Fprintf(&b, "\\x%02x", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func isControl(r rune) bool {
	return r != '\t' && unicode.IsControl(r)
}
