package main

import (
	"bytes"
	"errors"
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

// errLongEvent is of an event that has more data than a message may have.
var errLongEvent = errors.New("a message of the remote server is too long")

// next returns the next event that has data. Comments and other fields are
// passed over. Of one that is errLongEvent it returns all but the data.
func (e *events) next() (event, error) {
	var data []byte
	var tooLong error
	found := false
	for {
		line, err := e.lines.next()
		var long *longLineError
		switch {
		case errors.As(err, &long):
			data, found, tooLong = nil, true, errLongEvent
			continue
		case err != nil:
			return event{}, err // what was not ended by a blank line does not count
		case len(line) == 0 && found:
			return event{e.last, data, e.retry}, tooLong
		case len(line) == 0:
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
			if tooLong != nil || len(data) > e.lines.max {
				data, tooLong = nil, errLongEvent
			}
		case "id":
			e.last = string(value)
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				e.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}
