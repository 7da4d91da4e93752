package main

import (
	"bytes"
	"io"
	"strconv"
	"time"
)

// event is one of a stream of server-sent events, as the HTML standard has them.
type event struct {
	id    string // the last that the stream has named
	data  []byte
	retry time.Duration // what the stream asks for; 0 if it does not
}

// events reads a stream of server-sent events.
type events struct {
	lines *lines
	last  string
	retry time.Duration
}

func newEvents(r io.Reader) *events { return &events{lines: newLines(r)} }

// next returns the next event that has data. Comments and other fields are
// passed over.
func (e *events) next() (event, error) {
	var data []byte
	found := false
	for {
		line, err := e.lines.next()
		if err != nil {
			return event{}, err // what was not ended by a blank line does not count
		}
		if len(line) == 0 {
			if found {
				return event{e.last, data, e.retry}, nil
			}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "data":
			if found {
				data = append(data, '\n')
			}
			data, found = append(data, value...), true
		case "id":
			e.last = string(value)
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				e.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}
