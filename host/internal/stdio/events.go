package stdio

import (
	"bufio"
	"bytes"
	"io"
)

// events calls deliver with the data of each server-sent event, until the stream
// ends. An event without data is a sign of life.
func events(stream io.Reader, deliver func(data []byte)) error {
	r := bufio.NewReader(stream)
	var data []byte
	for {
		line, err := r.ReadBytes('\n')
		line = bytes.TrimRight(line, "\r\n")
		switch value, ok := bytes.CutPrefix(line, []byte("data:")); {
		case ok:
			if len(data) > 0 {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
		case len(line) == 0 && len(data) > 0:
			deliver(data)
			data = nil
		}
		if err == io.EOF {
			return nil // what was not ended by an empty line is not whole
		}
		if err != nil {
			return err
		}
	}
}
